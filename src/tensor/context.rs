//! What a forward pass is told besides its input: purpose, place in the run, and the rows it works on.

use std::sync::Arc;

use crate::error::Result;
use crate::tensor::{KvCache, Tensor};

/// What a pass is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Train,
    Infer,
}

/// What a pass that records does with what its layers compute on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activations {
    /// It stays until the backward.
    Kept,
    /// Only the input of each layer stays; the backward computes the rest again.
    Replayed,
}

/// The rows of a pass. Samples lie one after another on the time axis, so a batch has no padding.
#[derive(Clone)]
pub struct Rows {
    /// u32 [time]: the place of each token in its sample.
    pub positions: Tensor,
    /// u32 [time]: the first key each token may see, as an index into the keys.
    pub starts: Tensor,
    /// u32 [time]: which sample of the run each token belongs to.
    pub samples: Tensor,
}

impl Rows {
    /// Lays samples, given as (number within the run, length), one after another.
    pub fn of_samples(samples: &[(u32, usize)]) -> Result<Rows> {
        let time: usize = samples.iter().map(|(_, length)| length).sum();
        let (mut positions, mut starts, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for &(number, length) in samples {
            let start = positions.len() as u32;
            positions.extend(0..length as u32);
            starts.extend(std::iter::repeat_n(start, length));
            numbers.extend(std::iter::repeat_n(number, length));
        }
        Ok(Rows {
            positions: Tensor::of_u32(positions, [time])?,
            starts: Tensor::of_u32(starts, [time])?,
            samples: Tensor::of_u32(numbers, [time])?,
        })
    }

    /// The `count` rows from `first` on.
    pub fn span(&self, first: usize, count: usize) -> Result<Rows> {
        Ok(Rows {
            positions: self.positions.span(first, [count])?,
            starts: self.starts.span(first, [count])?,
            samples: self.samples.span(first, [count])?,
        })
    }

    /// `time` tokens that continue one sample at `position`, for generation with a cache.
    pub fn continuing(position: usize, time: usize) -> Result<Rows> {
        let positions = (position..position + time).map(|at| at as u32).collect();
        Ok(Rows {
            positions: Tensor::of_u32(positions, [time])?,
            starts: Tensor::of_u32(vec![0; time], [time])?,
            samples: Tensor::of_u32(vec![0; time], [time])?,
        })
    }
}

/// The circumstances of a pass. Cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    pub mode: Mode,
    /// Whether operations on parameters leave a graph behind.
    pub recording: bool,
    pub activations: Activations,
    /// Rows of the vocabulary whose logits are in memory at a time; none for a few megabytes of logits.
    pub vocab_slice: Option<usize>,
    /// The optimizer step, from 1; with `seed` it decides dropout masks.
    pub step: u64,
    pub seed: u64,
    pub rows: Rows,
    pub cache: Option<Arc<KvCache>>,
}

impl Ctx {
    pub fn train(rows: Rows, step: u64, seed: u64) -> Ctx {
        Ctx {
            mode: Mode::Train,
            recording: true,
            activations: Activations::Replayed,
            vocab_slice: None,
            step,
            seed,
            rows,
            cache: None,
        }
    }

    pub fn infer(rows: Rows) -> Ctx {
        Ctx {
            mode: Mode::Infer,
            recording: false,
            activations: Activations::Replayed,
            vocab_slice: None,
            step: 0,
            seed: 0,
            rows,
            cache: None,
        }
    }

    pub fn with_cache(mut self, cache: Arc<KvCache>) -> Ctx {
        self.cache = Some(cache);
        self
    }

    pub fn with_activations(mut self, activations: Activations) -> Ctx {
        self.activations = activations;
        self
    }

    pub fn with_vocab_slice(mut self, rows: Option<usize>) -> Ctx {
        self.vocab_slice = rows;
        self
    }

    pub fn without_recording(&self) -> Ctx {
        Ctx {
            recording: false,
            ..self.clone()
        }
    }
}
