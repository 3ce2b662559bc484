//! What training data came to, in numbers and by one sample as it is trained.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::data::{Records, Sample, Samples, Skipped, Tokenizer};
use crate::error::Result;
use crate::ops::IGNORED;

/// The numbers of a data file or folder.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub path: String,
    /// Records that are trained.
    pub records: usize,
    /// How many records have each format.
    pub formats: BTreeMap<&'static str, usize>,
    pub samples: usize,
    /// Tokens of all samples.
    pub tokens: usize,
    /// Those of them that are learned.
    pub targets: usize,
    /// Tokens of the longest sample.
    pub longest: usize,
    /// How many samples there are of each length.
    pub lengths: Vec<Bin>,
    /// Records of which a part was cut off.
    pub truncated: usize,
    /// Records that are left out.
    pub skipped: Vec<Skipped>,
    /// Files of a folder that hold no data.
    pub passed_over: Vec<String>,
}

/// Samples of `from` to `to` tokens, both inclusive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bin {
    pub from: usize,
    pub to: usize,
    pub samples: usize,
}

/// A part of a sample whose tokens are all learned, or all not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Piece {
    pub text: String,
    pub learned: bool,
}

impl Report {
    pub fn new(path: String, records: Records, made: &Samples) -> Report {
        let lengths: Vec<usize> = made.samples.iter().map(|s| s.ids.len()).collect();
        Report {
            path,
            records: records.records.len() - made.skipped.len(),
            formats: records.formats,
            samples: made.samples.len(),
            tokens: lengths.iter().sum(),
            targets: made.samples.iter().map(Sample::target_count).sum(),
            longest: lengths.iter().copied().max().unwrap_or(0),
            lengths: histogram(&lengths),
            truncated: made.truncated,
            skipped: [records.skipped, made.skipped.clone()].concat(),
            passed_over: records.passed_over,
        }
    }
}

/// Bins that double: 1, 2, 3 to 4, 5 to 8, …, from the first to the last that is not empty.
fn histogram(lengths: &[usize]) -> Vec<Bin> {
    let mut bins: BTreeMap<usize, usize> = BTreeMap::new();
    for length in lengths {
        *bins.entry(length.next_power_of_two()).or_default() += 1;
    }
    let (Some(first), Some(last)) = (bins.keys().next(), bins.keys().next_back()) else {
        return Vec::new();
    };
    let mut made = Vec::new();
    let (mut to, last) = (*first, *last);
    while to <= last {
        let (from, samples) = (to / 2 + 1, bins.get(&to).copied().unwrap_or(0));
        made.push(Bin { from, to, samples });
        to *= 2;
    }
    made
}

/// `sample` as text, special tokens included, in parts that are learned or not.
pub fn pieces(sample: &Sample, tokenizer: &Tokenizer) -> Result<Vec<Piece>> {
    let learned = |index: usize| index > 0 && sample.targets[index - 1] != IGNORED;
    let mut pieces = Vec::new();
    let (mut start, mut written) = (0, String::new());
    for end in 1..=sample.ids.len() {
        if end < sample.ids.len() && learned(end) == learned(start) {
            continue;
        }
        // Decoding what came before as well keeps the spaces that some tokenizers drop at the beginning of a text.
        let all = tokenizer.decode(&sample.ids[..end])?;
        let text = match all.strip_prefix(&written) {
            Some(text) => text.to_owned(),
            None => tokenizer.decode(&sample.ids[start..end])?,
        };
        pieces.push(Piece {
            text,
            learned: learned(start),
        });
        (start, written) = (end, all);
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_counted_in_bins_that_double() {
        let bin = |from, to, samples| Bin { from, to, samples };
        assert_eq!(
            histogram(&[3, 4, 5, 17, 32]),
            [bin(3, 4, 2), bin(5, 8, 1), bin(9, 16, 0), bin(17, 32, 2)]
        );
        assert_eq!(histogram(&[]), []);
    }
}
