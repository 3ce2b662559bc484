//! The tokenizer of a model: text to ids and back, exactly as Hugging Face `tokenizers` does it.

mod directory;
mod gguf;
mod words;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Code, Error, Result};
use crate::format::digest;

/// A tokenizer with what training needs around it. Special tokens that occur literally in a text become their ids,
/// as in Hugging Face.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    vocab_size: usize,
    bos: Option<u32>,
    eos: Option<u32>,
    padding: Option<u32>,
    /// Ids that every document starts with: BOS or nothing, for nearly all models.
    prefix: Vec<u32>,
    chat_template: Option<String>,
    sha256: String,
}

impl Tokenizer {
    /// Ids of `text` without added BOS or EOS.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = guarded(|| self.inner.encode_fast(text, false))
            .map_err(|cause| Error::new(Code::BadData, format!("cannot tokenize: {cause}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Ids of one document: BOS where the tokenizer's own settings put it, then the text. EOS is left to the caller.
    pub fn encode_document(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = self.prefix.clone();
        ids.extend(self.encode(text)?);
        Ok(ids)
    }

    /// The text of `ids`, special tokens included; ids that the vocabulary does not have become nothing.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        guarded(|| self.inner.decode(ids, false))
            .map_err(|cause| Error::new(Code::BadData, format!("cannot decode ids: {cause}")))
    }

    /// The id of one token of the vocabulary, e.g. `<|im_end|>`.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// What documents start with, where the model has such a token. See [`Tokenizer::encode_document`] for whether it is used.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a document.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    pub fn padding(&self) -> Option<u32> {
        self.padding
    }

    /// One more than the largest id: an embedding matrix needs at least so many rows.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The Jinja template that turns messages into text, where the model has one.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// SHA-256 in hexadecimal of tokenizer.json, or of the `tokenizer.*` keys of a GGUF file without its chat templates.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// SHA-256 in hexadecimal of the chat template's text.
    pub fn chat_template_sha256(&self) -> Option<String> {
        self.chat_template()
            .map(|text| digest::bytes(text.as_bytes()))
    }
}

/// Runs code of the tokenizers crate, which indexes and unwraps on what a file says: a panic there is the file's fault.
fn guarded<T>(work: impl FnOnce() -> tokenizers::Result<T>) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|cause| cause.to_string()),
        Err(_) => Err("the tokenizer's own tables contradict each other".to_string()),
    }
}
