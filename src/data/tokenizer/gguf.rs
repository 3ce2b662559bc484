//! The tokenizer inside a GGUF file.

use super::cuts::Cuts;
use super::{Tokenizer, words};
use crate::error::Result;
use crate::format::digest;
use crate::format::gguf::Metadata;
use crate::format::tokenizer::rebuild;

impl Tokenizer {
    /// The tokenizer of a GGUF file. Errors: see [`rebuild`].
    pub fn from_gguf(metadata: &Metadata) -> Result<Self> {
        let mut rebuilt = rebuild(metadata)?;
        let cuts = Cuts::of(&rebuilt.tokenizer);
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
            chat_template: metadata
                .string("tokenizer.chat_template")
                .map(str::to_string),
            sha256: fingerprint(metadata),
        })
    }
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
