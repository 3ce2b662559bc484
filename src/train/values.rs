//! What single options may be, where that is more than a number, a text or a switch.

use serde::{Deserialize, Serialize};

use crate::backend::cpu::product::Precision;
use crate::bail;
use crate::error;
use crate::error::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnOff {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EosOption {
    Auto,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerName {
    Adamw,
    Sgd,
}

impl OptimizerName {
    /// Values it keeps for each that is trained.
    pub fn moments(self) -> usize {
        match self {
            OptimizerName::Adamw => 2,
            OptimizerName::Sgd => 0,
        }
    }
}

/// Whether what layers compute on the way is computed again for the gradient instead of kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointingOption {
    Auto,
    On,
    Off,
}

/// What the factors of products with the base are rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrecisionOption {
    Auto,
    F32,
    Bf16,
    Int8,
}

impl PrecisionOption {
    /// An error when this processor has no instructions for the one that is named; `auto` takes the fastest it has.
    pub fn chosen(self) -> Result<Precision> {
        let named = match self {
            PrecisionOption::Auto => return Ok(Precision::fastest()),
            PrecisionOption::F32 => Precision::F32,
            PrecisionOption::Bf16 => Precision::Bf16,
            PrecisionOption::Int8 => Precision::Int8,
        };
        if named == Precision::F32 || named.in_hardware() {
            return Ok(named);
        }
        let hint = format!(
            "use --precision auto, which takes {} here",
            Precision::fastest().name()
        );
        Err(error!(Usage, "this processor has no products in {}", named.name()).hint(hint))
    }
}

/// A preset or names, as one text separated by commas or as a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TargetList {
    Text(String),
    List(Vec<String>),
}

impl TargetList {
    pub fn text(&self) -> String {
        match self {
            TargetList::Text(text) => text.clone(),
            TargetList::List(list) => list.join(","),
        }
    }
}

/// Layers as a text such as `0-7,12` or `last:8`, or their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LayerList {
    Text(String),
    Numbers(Vec<usize>),
}

impl LayerList {
    pub fn text(&self) -> String {
        match self {
            LayerList::Text(text) => text.clone(),
            LayerList::Numbers(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
                numbers.join(",")
            }
        }
    }
}

/// Steps, or a share of all steps such as "3%".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Warmup {
    Steps(usize),
    Text(String),
}

impl Warmup {
    /// The number of steps, a share rounded down.
    pub fn steps(&self, total: usize) -> Result<usize> {
        let text = match self {
            Warmup::Steps(steps) => return Ok(*steps),
            Warmup::Text(text) => text.trim(),
        };
        let share = text
            .strip_suffix('%')
            .map(|share| share.trim().parse::<f64>());
        match (share, text.parse::<usize>()) {
            (Some(Ok(share)), _) if (0.0..=100.0).contains(&share) => {
                Ok((total as f64 * share / 100.0) as usize)
            }
            (None, Ok(steps)) => Ok(steps),
            _ => bail!(
                Usage,
                "warmup {text:?} is neither a number of steps nor a share such as 3%"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warmup_is_steps_or_a_share_rounded_down() {
        assert_eq!(Warmup::Steps(7).steps(10).unwrap(), 7);
        assert_eq!(Warmup::Text("3%".to_owned()).steps(99).unwrap(), 2);
        assert_eq!(Warmup::Text("12".to_owned()).steps(99).unwrap(), 12);
        assert!(Warmup::Text("fast".to_owned()).steps(99).is_err());
    }
}
