//! Model `llama`: SentencePiece BPE with byte fallback. The file has scores and no merges; merges are derived from them.
//!
//! Every way to cut a piece into two pieces is a merge; merges are ranked by the score of the result.
//! Among equal scores the order is the one of the published tokenizer.json files: see [`ties`].
//! Source: transformers, `convert_slow_tokenizer.py` and `generate_merges`; checked against Llama 2, Gemma 2 and Gemma 3.

use std::collections::HashMap;

use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::{Prepend, Replace, Sequence as Normalizers};
use tokenizers::{NormalizerWrapper, Tokenizer};

use super::byte_level::unusable;
use super::vocabulary::{Kind, Vocabulary};
use crate::bail;
use crate::error::Result;
use crate::format::gguf::Metadata;

/// How SentencePiece writes a space.
const SPACE: char = '▁';

pub fn build(
    metadata: &Metadata,
    vocabulary: &Vocabulary,
    unknown: Option<u32>,
) -> Result<Tokenizer> {
    let architecture = metadata.string("general.architecture").unwrap_or_default();
    let pieces = Pieces::read(metadata, vocabulary, architecture.starts_with("gemma"))?;
    let mut builder = BPE::builder()
        .vocab_and_merges(pieces.vocab(), pieces.merges(ties(architecture)))
        .fuse_unk(true)
        .byte_fallback(true);
    if let Some(id) = unknown {
        builder = builder.unk_token(pieces.texts[id as usize].clone());
    }
    let model = builder.build().map_err(|cause| unusable(&*cause))?;

    let prefix = metadata
        .boolean("tokenizer.ggml.add_space_prefix")
        .unwrap_or(true);
    let mut tokenizer = Tokenizer::new(model);
    tokenizer
        .with_normalizer(Some(normalizer(prefix)?))
        .map_err(|cause| unusable(&*cause))?
        .with_decoder(Some(decoder(prefix)?));
    let phi3 = is_phi3(metadata);
    let added = vocabulary.added().into_iter().map(|mut token| {
        token.content = spaces_back(&token.content);
        let keeps = ["<unk>", "<s>", "<|endoftext|>"].contains(&&*token.content);
        token.rstrip(phi3 && !keeps)
    });
    tokenizer
        .add_tokens(added)
        .map_err(|cause| unusable(&*cause))?;
    Ok(tokenizer)
}

/// Phi-3 drops white space after its chat marks and `</s>`. No key says so: llama.cpp knows it by the model's name,
/// and every SentencePiece model of the architecture does it.
fn is_phi3(metadata: &Metadata) -> bool {
    let name = metadata.string("general.name").unwrap_or_default();
    let name = name.to_lowercase();
    metadata.string("general.architecture") == Some("phi3")
        || name.contains("phi-3")
        || name.contains("phi3")
}

/// Converters write a user-defined run of `▁` as spaces; Hugging Face knows it as `▁` again.
fn spaces_back(text: &str) -> String {
    match text.bytes().all(|byte| byte == b' ') {
        true => text.replace(' ', "▁"),
        false => text.to_string(),
    }
}

/// The order of merges whose results have equal scores; otherwise they stay in the order of ids.
#[derive(Clone, Copy, PartialEq)]
enum Ties {
    /// Pieces by id, cuts of one piece by the ids of left and right. Llama 2, Mistral, Phi-3, Gemma 1 and 2.
    Ids,
    /// Longer left part first, then longer right part. Gemma 3, converted by a later version of transformers.
    Lengths,
}

fn ties(architecture: &str) -> Ties {
    match architecture {
        "gemma3" => Ties::Lengths,
        _ => Ties::Ids,
    }
}

/// Texts as Hugging Face has them, by id, and the scores of those that merge.
struct Pieces {
    texts: Vec<String>,
    scores: Vec<Option<f32>>,
    ids: HashMap<String, u32>,
}

impl Pieces {
    fn read(metadata: &Metadata, vocabulary: &Vocabulary, gemma: bool) -> Result<Self> {
        const KEY: &str = "tokenizer.ggml.scores";
        let Some(scores) = metadata.floats(KEY) else {
            bail!(
                BadModel,
                "{KEY} is missing or no array of floats; a SentencePiece vocabulary needs it"
            );
        };
        if scores.len() != vocabulary.len() {
            bail!(
                BadModel,
                "{KEY} has {} entries, tokenizer.ggml.tokens has {}",
                scores.len(),
                vocabulary.len()
            );
        }
        if let Some(id) = scores.iter().position(|score| score.is_nan()) {
            bail!(BadModel, "{KEY}[{id}] is not a number");
        }
        let mut pieces = Pieces {
            texts: Vec::with_capacity(vocabulary.len()),
            scores: vec![None; vocabulary.len()],
            ids: HashMap::with_capacity(vocabulary.len()),
        };
        // Gemma 1 and 2 have runs of tabs but no single tab: the byte stands in, so that the runs can be merged.
        let tab = gemma && vocabulary.id("\t").is_none();
        for (id, text) in (0u32..).zip(&vocabulary.texts) {
            let text = match *text {
                "<0x09>" if tab => "\t".to_string(),
                text => spaces_back(text),
            };
            if let Some(first) = pieces.ids.insert(text.clone(), id) {
                bail!(
                    BadModel,
                    "tokenizer.ggml.tokens has {text:?} twice, as {first} and {id}"
                );
            }
            pieces.texts.push(text);
        }
        for (id, _, kind) in vocabulary.entries() {
            let run = pieces.texts[id as usize].chars().all(|c| c == SPACE);
            pieces.scores[id as usize] = match kind {
                // The converter overwrites the score of user-defined pieces; in SentencePiece it is 0.
                Kind::UserDefined if run => Some(0.0),
                // All others are cut out of the text before anything merges.
                kind if kind.is_added() => None,
                _ => Some(scores[id as usize]),
            };
        }
        Ok(pieces)
    }

    fn vocab(&self) -> tokenizers::models::bpe::Vocab {
        self.ids
            .iter()
            .map(|(text, &id)| (text.clone(), id))
            .collect()
    }

    /// All merges, best first.
    fn merges(&self, ties: Ties) -> Vec<(String, String)> {
        let mut merges: Vec<(f32, &str, &str)> = Vec::new();
        for (text, score) in self.texts.iter().zip(&self.scores) {
            let Some(score) = *score else { continue };
            let mut cuts: Vec<(u32, u32, &str, &str)> = text
                .char_indices()
                .skip(1)
                .filter_map(|(at, _)| {
                    let (left, right) = text.split_at(at);
                    Some((self.mergeable(left)?, self.mergeable(right)?, left, right))
                })
                .collect();
            cuts.sort_unstable();
            merges.extend(
                cuts.into_iter()
                    .map(|(_, _, left, right)| (score, left, right)),
            );
        }
        let length = |text: &str| text.chars().count();
        // Stable: what compares equal keeps the order of ids. No score is NaN.
        merges.sort_by(|(a, a_left, a_right), (b, b_left, b_right)| {
            let by_score = b.partial_cmp(a).unwrap_or(std::cmp::Ordering::Equal);
            match ties {
                Ties::Ids => by_score,
                Ties::Lengths => by_score
                    .then_with(|| length(b_left).cmp(&length(a_left)))
                    .then_with(|| length(b_right).cmp(&length(a_right))),
            }
        });
        merges
            .into_iter()
            .map(|(_, left, right)| (left.to_string(), right.to_string()))
            .collect()
    }

    fn mergeable(&self, text: &str) -> Option<u32> {
        let id = *self.ids.get(text)?;
        self.scores[id as usize].map(|_| id)
    }
}

fn normalizer(prefix: bool) -> Result<NormalizerWrapper> {
    let spaces = Replace::new(" ", "▁").map_err(|cause| unusable(&*cause))?;
    Ok(match prefix {
        true => {
            let prepend = Prepend::new("▁".to_string());
            Normalizers::new(vec![prepend.into(), spaces.into()]).into()
        }
        false => spaces.into(),
    })
}

fn decoder(prefix: bool) -> Result<DecoderWrapper> {
    let spaces = Replace::new("▁", " ").map_err(|cause| unusable(&*cause))?;
    let mut steps: Vec<DecoderWrapper> = vec![
        spaces.into(),
        ByteFallback::default().into(),
        Fuse::default().into(),
    ];
    if prefix {
        steps.push(Strip::new(' ', 1, 0).into());
    }
    Ok(Decoders::new(steps).into())
}
