//! Special ids of a GGUF vocabulary and whether BOS and EOS are added, with llama.cpp's defaults for absent keys.

use tokenizers::Tokenizer;

use super::Rebuilt;
use super::vocabulary::Vocabulary;
use crate::bail;
use crate::error::Result;
use crate::format::gguf::Metadata;

/// Ids that hold when the file names none.
pub struct Defaults {
    bos: Option<u32>,
    eos: Option<u32>,
    unknown: Option<u32>,
}

pub const BYTE_LEVEL: Defaults = Defaults {
    bos: Some(11),
    eos: Some(11),
    unknown: None,
};
pub const SENTENCEPIECE: Defaults = Defaults {
    bos: Some(1),
    eos: Some(2),
    unknown: Some(0),
};

pub struct Specials {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unknown: Option<u32>,
    pub padding: Option<u32>,
    add_bos: bool,
    add_eos: bool,
}

impl Specials {
    /// Reads the ids. One that the file names but the vocabulary does not have is `BAD_MODEL`; a default out of range is none.
    pub fn read(
        metadata: &Metadata,
        vocabulary: &Vocabulary,
        defaults: &Defaults,
        add_bos: bool,
    ) -> Result<Self> {
        let id = |role: &str, default: Option<u32>| named_id(metadata, vocabulary, role, default);
        let specials = Specials {
            bos: id("bos", defaults.bos)?,
            eos: id("eos", defaults.eos)?,
            unknown: id("unknown", defaults.unknown)?,
            padding: id("padding", None)?,
            add_bos: metadata
                .boolean("tokenizer.ggml.add_bos_token")
                .unwrap_or(add_bos),
            add_eos: metadata
                .boolean("tokenizer.ggml.add_eos_token")
                .unwrap_or(false),
        };
        Ok(specials)
    }

    pub fn with(self, tokenizer: Tokenizer, vocab_size: usize) -> Rebuilt {
        Rebuilt {
            tokenizer,
            vocab_size,
            add_bos: self.add_bos && self.bos.is_some(),
            add_eos: self.add_eos && self.eos.is_some(),
            bos: self.bos,
            eos: self.eos,
            unknown: self.unknown,
            padding: self.padding,
        }
    }
}

fn named_id(
    metadata: &Metadata,
    vocabulary: &Vocabulary,
    role: &str,
    default: Option<u32>,
) -> Result<Option<u32>> {
    let key = format!("tokenizer.ggml.{role}_token_id");
    let count = vocabulary.len();
    if metadata.get(&key).is_none() {
        return Ok(default.filter(|&id| (id as usize) < count));
    }
    match metadata.integer(&key) {
        Some(id) if id < count as u64 => Ok(Some(id as u32)),
        // Converters write -1, or its unsigned image, where a model has no such token.
        Some(id) if id == u64::from(u32::MAX) => Ok(None),
        None if negative(metadata, &key) => Ok(None),
        Some(id) => bail!(
            BadModel,
            "{key} is {id}, but the vocabulary has {count} tokens"
        ),
        None => bail!(BadModel, "{key} is no integer"),
    }
}

fn negative(metadata: &Metadata, key: &str) -> bool {
    use crate::format::gguf::Value;
    matches!(
        metadata.get(key),
        Some(Value::I8(..0) | Value::I16(..0) | Value::I32(..0) | Value::I64(..0))
    )
}
