//! Tokenizers rebuilt from the `tokenizer.ggml.*` keys of a GGUF file, equal to the Hugging Face tokenizer they were converted from.
//!
//! Two models exist: `gpt2` (byte-level BPE, merges in the file) and `llama` (SentencePiece BPE, merges derived from scores).
//! Defaults of absent keys are llama.cpp's. Source: ggml-org/llama.cpp, `src/llama-vocab.cpp`; ggml-org/ggml, `docs/gguf.md`.

mod byte_level;
mod pre_tokenizer;
mod sentencepiece;
mod special;
mod vocabulary;

use tokenizers::Tokenizer;

use crate::bail;
use crate::error::Result;
use crate::format::gguf::Metadata;
use special::Specials;
use vocabulary::Vocabulary;

/// A tokenizer and what the file says around it.
pub struct Rebuilt {
    pub tokenizer: Tokenizer,
    /// Number of ids, padding entries included: the rows of the embedding matrix.
    pub vocab_size: usize,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unknown: Option<u32>,
    pub padding: Option<u32>,
    /// Whether a document starts with `bos`; never true without one.
    pub add_bos: bool,
    /// Whether a document ends with `eos`; never true without one.
    pub add_eos: bool,
}

/// Builds the tokenizer that `metadata` describes.
///
/// `UNSUPPORTED_MODEL` names a `tokenizer.ggml.model` or `.pre` that is not known: guessing would train on wrong ids.
/// `BAD_MODEL` names the key that is missing, too short, duplicated or out of range.
pub fn rebuild(metadata: &Metadata) -> Result<Rebuilt> {
    let Some(model) = metadata.string("tokenizer.ggml.model") else {
        bail!(
            BadModel,
            "the GGUF file has no tokenizer: tokenizer.ggml.model is missing"
        );
    };
    match model {
        "gpt2" => {
            let vocabulary = Vocabulary::read(metadata)?;
            let pre = pre_tokenizer::named(metadata.string("tokenizer.ggml.pre"))?;
            let specials = Specials::read(metadata, &vocabulary, &special::BYTE_LEVEL, pre.add_bos)?;
            let tokenizer = byte_level::build(metadata, &vocabulary, pre)?;
            Ok(specials.with(tokenizer, vocabulary.len()))
        }
        "llama" => {
            let vocabulary = Vocabulary::read(metadata)?;
            let specials = Specials::read(metadata, &vocabulary, &special::SENTENCEPIECE, true)?;
            let tokenizer = sentencepiece::build(metadata, &vocabulary, specials.unknown)?;
            Ok(specials.with(tokenizer, vocabulary.len()))
        }
        other => Err(crate::error!(
            UnsupportedModel,
            "tokenizer.ggml.model is \"{other}\"; gpt2 (byte-level BPE) and llama (SentencePiece) are known"
        )
        .hint("use the Hugging Face directory of this model: its tokenizer.json is read as it is")),
    }
}
