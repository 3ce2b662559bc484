//! What an adapter is made like: PEFT's `LoraConfig`, as far as it decides what is computed.

use std::collections::BTreeSet;

use crate::lora::layers::layer_of;
use crate::lora::{Patterns, Targets};

/// Settings of an adapter. The defaults are those of the command line.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraConfig {
    /// Of every layer that `rank_pattern` does not name.
    pub rank: usize,
    /// Of every layer that `alpha_pattern` does not name.
    pub alpha: f32,
    /// Probability of dropping an input channel of A during training.
    pub dropout: f32,
    pub targets: Targets,
    /// Of the targets, only those in these decoder layers; none for all.
    pub layers: Option<BTreeSet<usize>>,
    pub rank_pattern: Patterns<usize>,
    pub alpha_pattern: Patterns<f32>,
    /// Whether B·A is scaled by alpha / √rank instead of alpha / rank. Kalajdzievski 2023, arXiv:2312.03732.
    pub rslora: bool,
    /// Whether each output's length is trained apart from its direction. Liu et al. 2024, arXiv:2402.09353.
    pub dora: bool,
    /// Decides the initial values.
    pub seed: u64,
}

impl Default for LoraConfig {
    fn default() -> Self {
        LoraConfig {
            rank: 8,
            alpha: 16.0,
            dropout: 0.0,
            targets: Targets::AllLinear,
            layers: None,
            rank_pattern: Patterns::default(),
            alpha_pattern: Patterns::default(),
            rslora: false,
            dora: false,
            seed: 0,
        }
    }
}

impl LoraConfig {
    /// The rank at the layer `path`.
    pub fn rank_of(&self, path: &str) -> usize {
        self.rank_pattern.get(path).copied().unwrap_or(self.rank)
    }

    /// The alpha at the layer `path`.
    pub fn alpha_of(&self, path: &str) -> f32 {
        self.alpha_pattern.get(path).copied().unwrap_or(self.alpha)
    }

    /// What multiplies B·A at the layer `path`.
    pub fn scale_of(&self, path: &str) -> f32 {
        let (alpha, rank) = (self.alpha_of(path), self.rank_of(path));
        match self.rslora {
            true => (f64::from(alpha) / (rank as f64).sqrt()) as f32,
            false => alpha / rank as f32,
        }
    }

    /// Whether the layer at `path` gets an adapter.
    pub fn targets_path(&self, path: &str) -> bool {
        self.is_in_layers(path) && self.targets.match_path(path)
    }

    /// Whether `layers` leaves the layer at `path` in; what lies in no numbered layer is left out, as in PEFT.
    pub fn is_in_layers(&self, path: &str) -> bool {
        match &self.layers {
            Some(layers) => layer_of(path).is_some_and(|layer| layers.contains(&layer)),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_has_its_own_scale() {
        let mut config = LoraConfig {
            rank: 4,
            alpha: 8.0,
            rank_pattern: Patterns::new([("k_proj".to_owned(), 16)]).unwrap(),
            alpha_pattern: Patterns::new([("v_proj".to_owned(), 2.0)]).unwrap(),
            ..LoraConfig::default()
        };
        let scales = |config: &LoraConfig| {
            ["a.q_proj", "a.k_proj", "a.v_proj"].map(|path| config.scale_of(path))
        };
        assert_eq!(scales(&config), [2.0, 0.5, 0.5]);
        config.rslora = true;
        assert_eq!(scales(&config), [4.0, 2.0, 1.0]);
    }

    #[test]
    fn layers_narrow_the_targets() {
        let config = LoraConfig {
            targets: Targets::parse("q_proj,lm_head").unwrap(),
            layers: Some([1].into()),
            ..LoraConfig::default()
        };
        assert!(config.targets_path("model.layers.1.self_attn.q_proj"));
        assert!(!config.targets_path("model.layers.0.self_attn.q_proj"));
        assert!(!config.targets_path("lm_head"));
    }
}
