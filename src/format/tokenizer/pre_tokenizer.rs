//! How text is cut before merging, by the name in `tokenizer.ggml.pre`: the steps of the family's own tokenizer.json.
//!
//! Patterns are those of the published tokenizer.json files; `default` is llama.cpp's guess for files older than the key.

use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{NormalizerWrapper, SplitDelimiterBehavior};

use crate::error::{Code, Error, Result};

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEFAULT: [&str; 4] = [
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
];

/// Whether `pattern` is one of the published ones. All of them end a match after "x\ny" has reached y, whatever follows.
pub fn is_known_pattern(pattern: &str) -> bool {
    [LLAMA3, QWEN2, TEKKEN, GPT4O].contains(&pattern)
}

/// What a name stands for.
pub struct PreTokenizer {
    pub normalizer: Option<NormalizerWrapper>,
    pub steps: PreTokenizerWrapper,
    /// A piece that is a token is taken whole, whether or not merges lead there.
    pub ignore_merges: bool,
    /// Whether documents start with BOS when the file does not say.
    pub add_bos: bool,
}

/// The pre-tokenizer called `name`; none means the file has no `tokenizer.ggml.pre`.
pub fn named(name: Option<&str>) -> Result<PreTokenizer> {
    let name = name.unwrap_or("default");
    let plain = |steps| PreTokenizer {
        normalizer: None,
        steps,
        ignore_merges: false,
        add_bos: false,
    };
    Ok(match name {
        "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "pixtral" => PreTokenizer {
            ignore_merges: true,
            add_bos: true,
            ..plain(patterns(&[LLAMA3])?)
        },
        "dbrx" | "smaug-bpe" => plain(patterns(&[LLAMA3])?),
        "qwen2" | "deepseek-r1-qwen" | "megrez" => PreTokenizer {
            normalizer: Some(NFC.into()),
            ..plain(patterns(&[QWEN2])?)
        },
        "tekken" => PreTokenizer {
            ignore_merges: true,
            add_bos: true,
            ..plain(patterns(&[TEKKEN])?)
        },
        "gpt-4o" => plain(patterns(&[GPT4O])?),
        "smollm" => plain(sequence(vec![Digits::new(true).into(), words().into()])),
        "gpt-2" | "phi-2" => plain(words().into()),
        "default" => plain(patterns(&DEFAULT)?),
        other => {
            return Err(crate::error!(
                UnsupportedModel,
                "tokenizer.ggml.pre is \"{other}\", a pre-tokenizer that is not known here"
            )
            .hint(
                "use the Hugging Face directory of this model: its tokenizer.json is read as it is",
            ));
        }
    })
}

/// Cuts by each pattern in turn, keeping what lies between matches, then writes bytes as characters.
fn patterns(patterns: &[&str]) -> Result<PreTokenizerWrapper> {
    let mut steps = Vec::with_capacity(patterns.len() + 1);
    for pattern in patterns {
        let pattern = SplitPattern::Regex(pattern.to_string());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
            .map_err(|cause| Error::new(Code::Internal, format!("a pattern of ours: {cause}")))?;
        steps.push(split.into());
    }
    steps.push(ByteLevel::new(false, true, false).into());
    Ok(sequence(steps))
}

/// The GPT-2 pattern, which the byte-level step carries itself.
fn words() -> ByteLevel {
    ByteLevel::new(false, true, true)
}

fn sequence(steps: Vec<PreTokenizerWrapper>) -> PreTokenizerWrapper {
    Sequence::new(steps).into()
}
