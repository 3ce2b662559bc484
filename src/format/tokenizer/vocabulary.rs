//! The vocabulary of a GGUF file: token texts and types, checked before anything is built from them.

use std::collections::HashMap;

use tokenizers::AddedToken;

use crate::bail;
use crate::error::Result;
use crate::format::gguf::Metadata;

/// Longest token that is believed, in bytes; real ones stay below 400.
const LONGEST: usize = 4096;

/// What a token is for, as `tokenizer.ggml.token_type` counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Also tokens without a type and types this list does not know.
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// Token texts by id, with their types; every text is there once and no text is empty.
pub struct Vocabulary<'a> {
    pub texts: Vec<&'a str>,
    pub kinds: Vec<Kind>,
    ids: HashMap<&'a str, u32>,
}

impl<'a> Vocabulary<'a> {
    /// Reads `tokenizer.ggml.tokens` and `.token_type`. An absent type list makes every token normal.
    pub fn read(metadata: &'a Metadata) -> Result<Self> {
        let Some(texts) = metadata.strings("tokenizer.ggml.tokens") else {
            bail!(
                BadModel,
                "tokenizer.ggml.tokens is missing or no array of strings"
            );
        };
        if texts.is_empty() || u32::try_from(texts.len()).is_err() {
            bail!(
                BadModel,
                "tokenizer.ggml.tokens has {} entries",
                texts.len()
            );
        }
        let kinds = read_kinds(metadata, texts.len())?;
        let mut ids = HashMap::with_capacity(texts.len());
        for (id, text) in texts.iter().enumerate() {
            if text.is_empty() || text.len() > LONGEST {
                bail!(
                    BadModel,
                    "tokenizer.ggml.tokens[{id}] is {} bytes long; 1 to {LONGEST} are possible",
                    text.len()
                );
            }
            if let Some(first) = ids.insert(text.as_str(), id as u32) {
                bail!(
                    BadModel,
                    "tokenizer.ggml.tokens has {text:?} twice, as {first} and {id}"
                );
            }
        }
        Ok(Vocabulary {
            texts: texts.iter().map(String::as_str).collect(),
            kinds,
            ids,
        })
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    pub fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// Texts that the tokenizer can produce, in order of their ids. Rows that only pad the embedding matrix
    /// (`[PAD7]` at 7, unused) stay out: Hugging Face does not know them.
    pub fn entries(&self) -> impl Iterator<Item = (u32, &'a str, Kind)> + '_ {
        (0u32..)
            .zip(&self.texts)
            .zip(&self.kinds)
            .map(|((id, text), kind)| (id, *text, *kind))
            .filter(|(id, text, kind)| *kind != Kind::Unused || *text != format!("[PAD{id}]"))
    }

    /// Control, user-defined and unknown tokens: found in the text before it is split, and never merged.
    /// All but the user-defined are special.
    pub fn added(&self) -> Vec<AddedToken> {
        self.entries()
            .filter(|(_, _, kind)| kind.is_added())
            .map(|(_, text, kind)| {
                AddedToken::from(text, kind != Kind::UserDefined).normalized(false)
            })
            .collect()
    }
}

impl Kind {
    pub fn is_added(self) -> bool {
        matches!(self, Kind::Control | Kind::UserDefined | Kind::Unknown)
    }
}

fn read_kinds(metadata: &Metadata, count: usize) -> Result<Vec<Kind>> {
    const KEY: &str = "tokenizer.ggml.token_type";
    if metadata.get(KEY).is_none() {
        return Ok(vec![Kind::Normal; count]);
    }
    let Some(numbers) = metadata.integers(KEY) else {
        bail!(BadModel, "{KEY} is no array of integers");
    };
    if numbers.len() != count {
        bail!(
            BadModel,
            "{KEY} has {} entries, tokenizer.ggml.tokens has {count}",
            numbers.len()
        );
    }
    let kind = |number| match number {
        2 => Kind::Unknown,
        3 => Kind::Control,
        4 => Kind::UserDefined,
        5 => Kind::Unused,
        6 => Kind::Byte,
        _ => Kind::Normal,
    };
    Ok(numbers.into_iter().map(kind).collect())
}
