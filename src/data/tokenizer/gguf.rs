//! The tokenizer inside a GGUF file.

use super::cuts::Cuts;
use super::{Templates, Tokenizer, words};
use crate::error::Result;
use crate::format::digest;
use crate::format::gguf::Metadata;
use crate::format::tokenizer::{Rebuilt, rebuild};

impl Tokenizer {
    /// The tokenizer of a GGUF file. Errors: see [`rebuild`].
    pub fn from_gguf(metadata: &Metadata) -> Result<Self> {
        let mut rebuilt = rebuild(metadata)?;
        let cuts = Cuts::of(&rebuilt.tokenizer);
        let named = named(&rebuilt);
        words::split(&mut rebuilt.tokenizer)?;
        Ok(Tokenizer {
            cuts,
            prefix: rebuilt
                .bos
                .filter(|_| rebuilt.add_bos)
                .into_iter()
                .collect(),
            inner: rebuilt.tokenizer,
            vocab_size: rebuilt.vocab_size,
            bos: rebuilt.bos,
            eos: rebuilt.eos,
            padding: rebuilt.padding,
            named,
            templates: Templates::of_gguf(metadata),
            sha256: fingerprint(metadata),
        })
    }
}

/// Texts of the special tokens by their names in templates. The id that llama.cpp takes for BOS where a byte-level file
/// names none is a common word: only what is special counts.
fn named(rebuilt: &Rebuilt) -> Vec<(String, String)> {
    let added = rebuilt.tokenizer.get_added_tokens_decoder();
    let roles = [
        ("bos_token", rebuilt.bos),
        ("eos_token", rebuilt.eos),
        ("unk_token", rebuilt.unknown),
        ("pad_token", rebuilt.padding),
    ];
    roles
        .into_iter()
        .filter_map(|(name, id)| {
            let token = added.get(&id?).filter(|token| token.special)?;
            Some((name.to_owned(), token.content.clone()))
        })
        .collect()
}

/// Hash over keys and values in the order of the keys: neither the order in the file nor the width of its numbers matters.
fn fingerprint(metadata: &Metadata) -> String {
    let mut keys: Vec<&str> = metadata
        .iter()
        .map(|(key, _)| key)
        .filter(|key| key.starts_with("tokenizer."))
        .filter(|key| !key.starts_with("tokenizer.chat_template"))
        .collect();
    keys.sort_unstable();
    let mut content = Vec::new();
    for key in keys {
        put(&mut content, key);
        if let Some(string) = metadata.string(key) {
            put(&mut content, string);
        } else if let Some(strings) = metadata.strings(key) {
            strings.iter().for_each(|string| put(&mut content, string));
        } else if let Some(truth) = metadata.boolean(key) {
            content.push(truth.into());
        } else if let Some(number) = metadata.integer(key) {
            content.extend(number.to_le_bytes());
        } else if let Some(number) = metadata.float(key) {
            content.extend(number.to_le_bytes());
        } else if let Some(numbers) = metadata.integers(key) {
            content.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        } else if let Some(numbers) = metadata.floats(key) {
            content.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
    }
    digest::bytes(&content)
}

/// The length first, so that neighbours cannot run into each other.
fn put(content: &mut Vec<u8>, text: &str) {
    content.extend((text.len() as u64).to_le_bytes());
    content.extend(text.as_bytes());
}
