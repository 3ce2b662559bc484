//! How far a run has come: everything of it but the parameters and their moments.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a run needs to go on, beside the state of what it trains. Random numbers are functions of seed and step, so the
/// step is also their state, and the place in the data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Optimizer steps done.
    pub step: usize,
    pub losses: Losses,
    /// Steps left out because the loss or a gradient was not finite: all, and since the last that was not.
    pub skipped: usize,
    pub skipped_in_a_row: usize,
    /// Whether the warning of a loss or gradient of zero was given.
    pub zero_seen: bool,
    /// The step of the last complete evaluation.
    pub evaluated: usize,
    pub best: Option<Best>,
    /// Time spent in steps, for the estimate of what is left.
    pub training: Duration,
    /// Time since the run began, without pauses.
    pub elapsed: Duration,
}

/// The evaluation with the lowest loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Best {
    pub step: usize,
    #[serde(serialize_with = "write_exact", deserialize_with = "read_exact")]
    pub loss: f64,
}

/// The losses of the last tenth of the steps that were not skipped, at least of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    count: usize,
    #[serde(serialize_with = "write_all", deserialize_with = "read_all")]
    last: VecDeque<f64>,
}

impl Losses {
    pub fn push(&mut self, loss: f64) {
        self.count += 1;
        self.last.push_back(loss);
        if self.last.len() > self.count.div_ceil(10) {
            self.last.pop_front();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The mean; not a number of none.
    pub fn mean(&self) -> f64 {
        self.last.iter().sum::<f64>() / self.last.len() as f64
    }
}

/// As text: a number in JSON may come back with another last digit.
fn write_exact<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

fn read_exact<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

fn write_all<S: Serializer>(numbers: &VecDeque<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(numbers.iter().map(f64::to_string))
}

fn read_all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VecDeque<f64>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let numbers = texts.iter().map(|text| text.parse());
    numbers
        .collect::<Result<_, _>>()
        .map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tenth_of_the_losses_counts() {
        let mut losses = Losses::default();
        let all: Vec<f64> = (0..37).map(|i| f64::from(i * i % 11) / 3.0).collect();
        for (index, &loss) in all.iter().enumerate() {
            losses.push(loss);
            let done = index + 1;
            let tenth = &all[done - done.div_ceil(10)..done];
            assert_eq!(
                losses.mean(),
                tenth.iter().sum::<f64>() / tenth.len() as f64
            );
        }
    }

    #[test]
    fn progress_comes_back_from_json_bit_for_bit() {
        let mut progress = Progress {
            best: Some(Best {
                step: 3,
                loss: 0.1 + 0.2,
            }),
            training: Duration::from_nanos(123_456_789_012),
            ..Progress::default()
        };
        for i in 1..200 {
            progress.losses.push((f64::from(i)).sqrt().exp() / 3.0);
        }
        let json = serde_json::to_string(&progress).unwrap();
        assert_eq!(serde_json::from_str::<Progress>(&json).unwrap(), progress);
    }
}
