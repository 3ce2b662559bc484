//! Documents as samples of at most so many tokens, each token but the first a target.

use crate::bail;
use crate::data::{Document, Tokenizer};
use crate::error::Result;
use crate::ops::IGNORED;

/// What is trained on at once: `targets[t]` is the token that should follow `ids[t]`, or `IGNORED`.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub ids: Vec<u32>,
    pub targets: Vec<u32>,
    /// Where it comes from, for messages.
    pub place: String,
}

impl Sample {
    /// How many tokens are predicted.
    pub fn target_count(&self) -> usize {
        self.targets
            .iter()
            .filter(|&&target| target != IGNORED)
            .count()
    }
}

/// Whether a document ends with the end-of-sequence token, trained once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eos {
    Append,
    Never,
}

/// Tokenizes `documents` (BOS where the tokenizer's settings say so) and cuts them into chunks of `length` tokens; the
/// rest is a sample too. A document shorter than `length` is a sample of its own length.
pub fn samples(
    documents: &[Document],
    tokenizer: &Tokenizer,
    length: usize,
    eos: Eos,
) -> Result<Vec<Sample>> {
    if length < 2 {
        bail!(
            Usage,
            "a sequence length of {length} leaves nothing to predict; use at least 2"
        );
    }
    let mut samples = Vec::new();
    for document in documents {
        let mut ids = tokenizer.encode_document(&document.text)?;
        if eos == Eos::Append
            && let Some(eos) = tokenizer.eos()
            && ids.last() != Some(&eos)
        {
            ids.push(eos);
        }
        samples.extend(chunks(&ids, length).map(|ids| sample(ids, &document.place)));
    }
    if samples.is_empty() {
        bail!(
            BadData,
            "the data has no two tokens in a row, so there is nothing to predict"
        );
    }
    Ok(samples)
}

/// Chunks of `length` ids. A single id left over is predicted from the one before it, so that no end token is lost.
fn chunks(ids: &[u32], length: usize) -> impl Iterator<Item = &[u32]> {
    (0..ids.len()).step_by(length).filter_map(move |start| {
        let end = (start + length).min(ids.len());
        match end - start {
            1 if start == 0 => None,
            1 => Some(&ids[start - 1..end]),
            _ => Some(&ids[start..end]),
        }
    })
}

fn sample(ids: &[u32], place: &str) -> Sample {
    let mut targets = ids[1..].to_vec();
    targets.push(IGNORED);
    Sample {
        ids: ids.to_vec(),
        targets,
        place: place.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_every_token_and_a_lone_last_one_is_still_predicted() {
        let ids: Vec<u32> = (0..9).collect();
        let cut: Vec<&[u32]> = chunks(&ids, 4).collect();
        assert_eq!(cut, [&[0, 1, 2, 3][..], &[4, 5, 6, 7], &[7, 8]]);
        assert_eq!(chunks(&ids[..7], 4).last().unwrap(), [4, 5, 6]);
        assert_eq!(chunks(&ids[..3], 512).collect::<Vec<_>>(), [[0, 1, 2]]);
        assert_eq!(chunks(&ids[..1], 4).count(), 0);
    }

    #[test]
    fn a_sample_predicts_every_token_but_its_first() {
        let sample = sample(&[5, 6, 7], "a.txt");
        assert_eq!(sample.targets, [6, 7, IGNORED]);
        assert_eq!(sample.target_count(), 2);
    }
}
