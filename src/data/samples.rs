//! Encoded records as samples of at most so many tokens. What does not fit is cut as told, counted, and never lost in silence.

use std::iter;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::bail;
use crate::data::{Content, Encoded, Record, Skipped};
use crate::error::Result;
use crate::ops::IGNORED;

/// What is trained on at once: `targets[t]` is the token that should follow `ids[t]`, or `IGNORED`.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub ids: Vec<u32>,
    pub targets: Vec<u32>,
    /// The record it comes from: all samples of a record have the same.
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

/// What becomes of a record that is longer than a sample may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Truncate {
    /// Its end is cut off.
    End,
    /// Its start is cut off; a BOS stays.
    Start,
    /// It becomes several samples.
    Split,
    /// It is left out.
    Drop,
}

/// How records are cut to samples.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Most tokens of a sample, BOS and EOS included.
    pub length: usize,
    /// None: texts are split; of prompts with completions and conversations the end is cut off.
    pub truncate: Option<Truncate>,
    pub bos: Option<u32>,
}

/// What became of records.
#[derive(Debug, Default, PartialEq)]
pub struct Samples {
    pub samples: Vec<Sample>,
    /// Records of which a part was cut off.
    pub truncated: usize,
    /// Records that are left out, and why.
    pub skipped: Vec<Skipped>,
}

impl Cut {
    /// Refuses a length that leaves nothing to predict.
    pub fn check(&self) -> Result<()> {
        if self.length < 2 {
            bail!(
                Usage,
                "a sequence length of {} leaves nothing to predict; use at least 2",
                self.length
            );
        }
        Ok(())
    }

    /// Adds the samples of `record`, which is `encoded`, to `made`.
    pub fn add(&self, record: &Record, encoded: &Encoded, made: &mut Samples) {
        let before = made.samples.len();
        let tokens = encoded.ids.len();
        let fits = tokens <= self.length;
        let how = match (&record.content, self.truncate) {
            (_, Some(how)) => how,
            (Content::Text(_), None) => Truncate::Split,
            _ => Truncate::End,
        };
        let spans: Vec<Range<usize>> = match how {
            _ if fits => iter::once(0..tokens).collect(),
            Truncate::Split => split(tokens, self.length),
            Truncate::End => iter::once(0..self.length).collect(),
            Truncate::Start => iter::once(tokens - self.length..tokens).collect(),
            Truncate::Drop => Vec::new(),
        };
        for span in spans {
            let mut ids = encoded.ids[span.clone()].to_vec();
            let mut learned = encoded.learned[span].to_vec();
            if !fits && how == Truncate::Start && encoded.ids.first().copied() == self.bos {
                ids[0] = encoded.ids[0];
                learned[0] = false;
            }
            made.samples.extend(sample(ids, &learned, &record.place));
        }
        let learns = encoded.learned.iter().skip(1).any(|learned| *learned);
        if made.samples.len() > before {
            made.truncated += usize::from(!fits && how != Truncate::Split);
            return;
        }
        let length = self.length;
        let reason = match how {
            _ if !learns && tokens < 2 => "fewer than two tokens, so nothing to predict".to_owned(),
            _ if !learns => {
                "nothing to learn: no completion and no turn of the assistant".to_owned()
            }
            Truncate::Drop => format!("{tokens} tokens are more than {length}"),
            _ => format!("nothing to learn is among the {length} tokens that are left of {tokens}"),
        };
        made.skipped.push(Skipped {
            place: record.place.clone(),
            reason,
        });
    }
}

/// Spans of `length` tokens. A single token left over is predicted from the one before it, so that no end token is lost.
fn split(tokens: usize, length: usize) -> Vec<Range<usize>> {
    let span = |start: usize| match tokens - start {
        1 => start - 1..tokens,
        _ => start..tokens.min(start + length),
    };
    (0..tokens).step_by(length).map(span).collect()
}

/// The sample of `ids`, each predicted from those before it where `learned`; none when nothing is predicted.
fn sample(ids: Vec<u32>, learned: &[bool], place: &str) -> Option<Sample> {
    let next = ids.iter().zip(learned).skip(1);
    let mut targets: Vec<u32> = next
        .map(|(id, learned)| if *learned { *id } else { IGNORED })
        .collect();
    targets.push(IGNORED);
    let sample = Sample {
        ids,
        targets,
        place: place.to_owned(),
    };
    (sample.target_count() > 0).then_some(sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Conversation;

    const LENGTH: usize = 4;

    fn cut(content: Content, truncate: Option<Truncate>, learned: &[bool]) -> Samples {
        let record = Record {
            content,
            place: "a".to_owned(),
        };
        let encoded = Encoded {
            ids: (0..learned.len() as u32).collect(),
            learned: learned.to_vec(),
        };
        let mut made = Samples::default();
        let cut = Cut {
            length: LENGTH,
            truncate,
            bos: Some(0),
        };
        cut.add(&record, &encoded, &mut made);
        made
    }

    fn text() -> Content {
        Content::Text(String::new())
    }

    fn chat() -> Content {
        Content::Chat(Conversation::new(Vec::new()))
    }

    fn ids(samples: &Samples) -> Vec<&[u32]> {
        samples.samples.iter().map(|s| &s.ids[..]).collect()
    }

    #[test]
    fn texts_are_split_so_that_every_token_is_kept_and_a_lone_last_one_still_predicted() {
        let made = cut(text(), None, &[true; 9]);
        assert_eq!(ids(&made), [&[0, 1, 2, 3][..], &[4, 5, 6, 7], &[7, 8]]);
        assert_eq!(made.samples[2].targets, [8, IGNORED]);
        assert_eq!((made.truncated, made.skipped.len()), (0, 0));
        assert_eq!(ids(&cut(text(), None, &[true; 7]))[1], [4, 5, 6]);
        let short = cut(text(), None, &[true; 3]);
        assert_eq!(short.samples[0].targets, [1, 2, IGNORED]);
    }

    #[test]
    fn only_learned_tokens_are_targets_and_chats_lose_their_end() {
        let made = cut(chat(), None, &[false, false, true, true, true, true]);
        assert_eq!(made.samples[0].targets, [IGNORED, 2, 3, IGNORED]);
        assert_eq!(made.truncated, 1);
    }

    #[test]
    fn cutting_the_start_keeps_the_first_token_when_it_is_bos() {
        let made = cut(
            chat(),
            Some(Truncate::Start),
            &[false, false, false, true, true, true],
        );
        assert_eq!(ids(&made), [[0, 3, 4, 5]]);
        assert_eq!(made.samples[0].targets, [3, 4, 5, IGNORED]);
        assert_eq!(made.truncated, 1);
    }

    #[test]
    fn a_record_without_targets_is_skipped_with_its_reason() {
        let answer_last = [false, false, false, false, false, true];
        let reason = |made: Samples| {
            assert!(made.samples.is_empty());
            made.skipped[0].reason.clone()
        };
        assert_eq!(
            reason(cut(chat(), None, &answer_last)),
            "nothing to learn is among the 4 tokens that are left of 6"
        );
        assert_eq!(
            cut(chat(), Some(Truncate::Start), &answer_last)
                .samples
                .len(),
            1
        );
        assert_eq!(
            cut(chat(), Some(Truncate::Split), &answer_last)
                .samples
                .len(),
            1
        );
        assert_eq!(
            reason(cut(text(), Some(Truncate::Drop), &[true; 5])),
            "5 tokens are more than 4"
        );
        assert!(reason(cut(chat(), None, &[false; 3])).starts_with("nothing to learn: "));
        assert!(reason(cut(text(), None, &[true])).starts_with("fewer than two"));
    }
}
