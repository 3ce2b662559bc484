//! Tokenizers rebuilt from the `tokenizer.ggml.*` keys of a GGUF file, equal to the Hugging Face tokenizer they were converted from.
//!
//! Two models exist: `gpt2` (byte-level BPE, merges in the file) and `llama` (SentencePiece BPE, merges derived from scores).
//! Defaults of absent keys are llama.cpp's. Source: ggml-org/llama.cpp, `src/llama-vocab.cpp`; ggml-org/ggml, `docs/gguf.md`.

mod byte_level;
mod pre_tokenizer;
mod sentencepiece;
mod special;
mod vocabulary;

pub use pre_tokenizer::is_known_pattern;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::format::gguf::{Array, Value};

    fn strings(items: &[&str]) -> Value {
        Value::Array(Array::Strings(
            items.iter().map(|item| item.to_string()).collect(),
        ))
    }

    fn byte_level() -> Metadata {
        let mut metadata = Metadata::new();
        metadata.set("tokenizer.ggml.model", Value::String("gpt2".into()));
        metadata.set("tokenizer.ggml.pre", Value::String("gpt-2".into()));
        metadata.set(
            "tokenizer.ggml.tokens",
            strings(&["a", "b", "c", "ab", "<|end|>", "Ġ"]),
        );
        let kinds = Value::Array(Array::I32s(vec![1, 1, 1, 1, 3, 1]));
        metadata.set("tokenizer.ggml.token_type", kinds);
        metadata.set("tokenizer.ggml.merges", strings(&["a b"]));
        metadata
    }

    fn sentencepiece() -> Metadata {
        let mut metadata = Metadata::new();
        metadata.set("tokenizer.ggml.model", Value::String("llama".into()));
        let tokens = strings(&["<unk>", "<s>", "</s>", "▁", "a", "b", "▁a", "ab"]);
        metadata.set("tokenizer.ggml.tokens", tokens);
        let scores = vec![0.0, 0.0, 0.0, -3.0, -4.0, -5.0, -1.0, -2.0];
        metadata.set("tokenizer.ggml.scores", Value::Array(Array::F32s(scores)));
        let kinds = Value::Array(Array::I32s(vec![2, 3, 3, 1, 1, 1, 1, 1]));
        metadata.set("tokenizer.ggml.token_type", kinds);
        metadata
    }

    fn ids(rebuilt: &Rebuilt, text: &str) -> Vec<u32> {
        let encoding = rebuilt.tokenizer.encode_fast(text, false).unwrap();
        encoding.get_ids().to_vec()
    }

    /// `change` must make `metadata` unusable, with this code and the key in the message.
    fn refused(mut metadata: Metadata, key: &str, value: Value, code: Code) {
        metadata.set(key, value);
        let error = rebuild(&metadata).err().expect(key);
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(key), "{error}");
    }

    #[test]
    fn merges_and_scores_decide_what_is_merged() {
        let rebuilt = rebuild(&byte_level()).unwrap();
        assert_eq!(ids(&rebuilt, "abc<|end|>a"), [3, 2, 4, 0]);
        let rebuilt = rebuild(&sentencepiece()).unwrap();
        // "▁ab": ▁a has the better score; written with a space in front by default.
        assert_eq!(ids(&rebuilt, "ab"), [6, 5]);
        assert_eq!(ids(&rebuilt, "b</s>ab?"), [3, 5, 2, 6, 5, 0]);
    }

    #[test]
    fn absent_keys_have_the_defaults_of_llama_cpp() {
        let rebuilt = rebuild(&sentencepiece()).unwrap();
        assert_eq!(
            (rebuilt.bos, rebuilt.eos, rebuilt.unknown),
            (Some(1), Some(2), Some(0))
        );
        assert!(rebuilt.add_bos && !rebuilt.add_eos);
        // 11 is outside this vocabulary, so there is no BOS to add.
        let mut metadata = byte_level();
        metadata.set("tokenizer.ggml.pre", Value::String("llama-bpe".into()));
        let rebuilt = rebuild(&metadata).unwrap();
        assert_eq!((rebuilt.bos, rebuilt.add_bos), (None, false));
        metadata.set("tokenizer.ggml.bos_token_id", Value::U32(4));
        assert!(rebuild(&metadata).unwrap().add_bos);
        metadata.set("tokenizer.ggml.bos_token_id", Value::I32(-1));
        assert_eq!(rebuild(&metadata).unwrap().bos, None);
    }

    #[test]
    fn unknown_models_and_pre_tokenizers_are_refused_by_name() {
        for (key, name) in [
            ("tokenizer.ggml.model", "rwkv"),
            ("tokenizer.ggml.pre", "bloom"),
        ] {
            refused(
                byte_level(),
                key,
                Value::String(name.into()),
                Code::UnsupportedModel,
            );
        }
        let error = rebuild(&Metadata::new()).err().unwrap();
        assert_eq!(error.code, Code::BadModel);
    }

    #[test]
    fn every_known_pre_tokenizer_is_built() {
        let names = [
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "pixtral",
            "dbrx",
            "smaug-bpe",
            "qwen2",
            "deepseek-r1-qwen",
            "megrez",
            "tekken",
            "gpt-4o",
            "smollm",
            "gpt-2",
            "phi-2",
            "default",
        ];
        for name in names {
            let mut metadata = byte_level();
            metadata.set("tokenizer.ggml.pre", Value::String(name.into()));
            assert_eq!(ids(&rebuild(&metadata).unwrap(), "ab"), [3], "{name}");
        }
    }

    #[test]
    fn contradicting_metadata_is_an_error() {
        let integers = |items: &[i32]| Value::Array(Array::I32s(items.to_vec()));
        let floats = |items: &[f32]| Value::Array(Array::F32s(items.to_vec()));
        let same = strings(&["a", "b", "c", "ab", "a", "Ġ"]);
        let empty = strings(&["a", "b", "c", "ab", "", "Ġ"]);
        for tokens in [same, empty, strings(&[]), Value::U8(1)] {
            refused(
                byte_level(),
                "tokenizer.ggml.tokens",
                tokens,
                Code::BadModel,
            );
        }
        let key = "tokenizer.ggml.merges";
        let none = strings(&[""]);
        let one = strings(&["ab"]);
        let unknown = strings(&["a z"]);
        let longer = strings(&["ab ab"]);
        let wide = strings(&["é"]);
        for merges in [none, one, unknown, longer, wide, Value::Bool(true)] {
            refused(byte_level(), key, merges, Code::BadModel);
        }
        let key = "tokenizer.ggml.token_type";
        for kinds in [integers(&[1]), integers(&[]), Value::U32(3)] {
            refused(byte_level(), key, kinds, Code::BadModel);
        }
        let key = "tokenizer.ggml.eos_token_id";
        for id in [Value::U32(6), Value::I64(1 << 40), Value::Bool(true)] {
            refused(byte_level(), key, id, Code::BadModel);
        }
        let key = "tokenizer.ggml.scores";
        for scores in [floats(&[1.0]), floats(&[f32::NAN; 8]), Value::U32(3)] {
            refused(sentencepiece(), key, scores, Code::BadModel);
        }
    }
}
