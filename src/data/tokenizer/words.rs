//! Makes SentencePiece tokenizers fast on long text without changing an id.
//!
//! Their tokenizer.json merges the whole text as one word: a heap as long as the text, and no word is ever met twice.
//! Merges work left and right of a place independently when no token of the vocabulary spans it. So the text may be cut
//! before a run of `▁` whose left neighbour stands before `▁` in no token. Words are then short and cached.

use std::collections::BTreeSet;

use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{ModelWrapper, SplitDelimiterBehavior};

use crate::error::{Code, Error, Result};

const SPACE: char = '▁';

/// Adds the cut to `tokenizer` when it is a BPE over whole texts; leaves every other one as it is.
pub fn split(tokenizer: &mut tokenizers::Tokenizer) -> Result<()> {
    let ModelWrapper::BPE(model) = tokenizer.get_model() else {
        return Ok(());
    };
    let whole = match tokenizer.get_pre_tokenizer() {
        None => None,
        Some(step) if keeps_text_whole(step) => Some(step.clone()),
        Some(_) => return Ok(()),
    };
    let Some(left) = spanned(model) else {
        return Ok(());
    };
    let class: String = left
        .iter()
        .map(|&c| format!("\\x{{{:x}}}", c as u32))
        .collect();
    let pattern = SplitPattern::Regex(format!("(?<![{class}]){SPACE}+"));
    let cut = Split::new(pattern, SplitDelimiterBehavior::MergedWithNext, false)
        .map_err(|cause| Error::new(Code::Internal, format!("a pattern of ours: {cause}")))?;
    let steps: Vec<PreTokenizerWrapper> = whole.into_iter().chain([cut.into()]).collect();
    tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
    Ok(())
}

/// Metaspace without splitting (Llama of transformers 5) and Gemma's cut at spaces, of which its normaliser leaves none:
/// neither cuts at `▁`, so a cut there afterwards only makes their pieces smaller.
fn keeps_text_whole(step: &PreTokenizerWrapper) -> bool {
    match step {
        PreTokenizerWrapper::Metaspace(metaspace) => {
            !metaspace.split && metaspace.get_replacement() == SPACE
        }
        PreTokenizerWrapper::Split(split) => split.pattern == SplitPattern::String(" ".into()),
        _ => false,
    }
}

/// The characters that stand before `▁` in some token, `▁` included; none when cutting could change something else:
/// a word that is looked up whole, dropout, marks on parts of words, or unknown characters that fuse across the cut.
pub fn spanned(model: &BPE) -> Option<BTreeSet<char>> {
    let plain = model
        .continuing_subword_prefix
        .as_deref()
        .unwrap_or("")
        .is_empty()
        && model.end_of_word_suffix.as_deref().unwrap_or("").is_empty()
        && model.dropout.is_none_or(|share| share == 0.0);
    let vocabulary = model.get_vocab();
    let known = |byte: u8| {
        vocabulary.contains_key(&format!("<0x{byte:02X}>"))
            || byte.is_ascii() && vocabulary.contains_key(&char::from(byte).to_string())
    };
    let complete = model.byte_fallback && (0..=255).all(known);
    if !plain || !complete || model.ignore_merges || !vocabulary.contains_key("▁") {
        return None;
    }
    let mut left = BTreeSet::from([SPACE]);
    for text in vocabulary.keys() {
        let pairs = text.chars().zip(text.chars().skip(1));
        left.extend(
            pairs
                .filter(|(_, right)| *right == SPACE)
                .map(|(left, _)| left),
        );
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_give_the_ids_of_the_whole_text() {
        let torture = super::super::tests::torture().join(" ") + &"x ".repeat(500);
        for name in ["llama2", "phi3", "gemma2", "gemma3"] {
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
            let path = root.join("__test__/fixtures/tokenizers").join(name);
            let whole = tokenizers::Tokenizer::from_file(path.join("tokenizer.json")).unwrap();
            let mut words = whole.clone();
            split(&mut words).unwrap();
            let encode = |tokenizer: &tokenizers::Tokenizer| {
                let encoding = tokenizer.encode_fast(torture.as_str(), false).unwrap();
                encoding.get_ids().to_vec()
            };
            assert_eq!(encode(&words), encode(&whole), "{name}");
            let pieces = format!("{:?}", words.get_pre_tokenizer());
            assert!(pieces.contains("▁+"), "{name} is not cut: {pieces}");
        }
    }

    #[test]
    fn byte_level_tokenizers_stay_as_they_are() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = root.join("__test__/fixtures/tokenizers/llama3/tokenizer.json");
        let original = tokenizers::Tokenizer::from_file(path).unwrap();
        let mut tokenizer = original.clone();
        split(&mut tokenizer).unwrap();
        let steps = |tokenizer: &tokenizers::Tokenizer| {
            serde_json::to_string(&tokenizer.get_pre_tokenizer()).unwrap()
        };
        assert_eq!(steps(&tokenizer), steps(&original));
    }
}
