//! Model `gpt2`: byte-level BPE. Bytes are written as characters, merges come from the file in order of rank.

use tokenizers::Tokenizer;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use super::pre_tokenizer::PreTokenizer;
use super::vocabulary::Vocabulary;
use crate::bail;
use crate::error::{Code, Error, Result};
use crate::format::gguf::Metadata;

pub fn build(metadata: &Metadata, vocabulary: &Vocabulary, pre: PreTokenizer) -> Result<Tokenizer> {
    let vocab: Vocab = vocabulary
        .entries()
        .map(|(id, text, _)| (text.to_string(), id))
        .collect();
    let model = BPE::builder()
        .vocab_and_merges(vocab, merges(metadata, vocabulary)?)
        .ignore_merges(pre.ignore_merges)
        .build()
        .map_err(|cause| unusable(&*cause))?;
    let mut tokenizer = Tokenizer::new(model);
    tokenizer
        .with_normalizer(pre.normalizer)
        .map_err(|cause| unusable(&*cause))?
        .with_pre_tokenizer(Some(pre.steps))
        .with_decoder(Some(ByteLevel::default()));
    tokenizer
        .add_tokens(vocabulary.added())
        .map_err(|cause| unusable(&*cause))?;
    Ok(tokenizer)
}

/// What the tokenizers crate refuses although our own checks passed.
pub fn unusable(cause: &(dyn std::error::Error + Send + Sync)) -> Error {
    Error::new(
        Code::BadModel,
        format!("the tokenizer in the GGUF file cannot be built: {cause}"),
    )
}

/// `tokenizer.ggml.merges`: "left right", cut at the first space that is not the first character.
fn merges(metadata: &Metadata, vocabulary: &Vocabulary) -> Result<Vec<(String, String)>> {
    let Some(lines) = metadata.strings("tokenizer.ggml.merges") else {
        bail!(
            BadModel,
            "tokenizer.ggml.merges is missing or no array of strings; byte-level BPE needs it"
        );
    };
    let mut merges = Vec::with_capacity(lines.len());
    for (rank, line) in lines.iter().enumerate() {
        let first = line.chars().next().map_or(0, char::len_utf8);
        let Some(space) = line[first..].find(' ') else {
            bail!(
                BadModel,
                "tokenizer.ggml.merges[{rank}] is {line:?}; two tokens with a space between are expected"
            );
        };
        let (left, right) = (&line[..first + space], &line[first + space + 1..]);
        let merged = [left, right].concat();
        for text in [left, right, merged.as_str()] {
            if vocabulary.id(text).is_none() {
                bail!(
                    BadModel,
                    "tokenizer.ggml.merges[{rank}] is {line:?}, but {text:?} is no token"
                );
            }
        }
        merges.push((left.to_string(), right.to_string()));
    }
    Ok(merges)
}
