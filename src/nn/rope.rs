//! Rotary frequencies: theta^(−2i/dims) and the ways checkpoints stretch them to longer contexts.

use std::f64::consts::TAU;
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::ops::{Pairs, turns};
use crate::tensor::{Rows, Tensor, TensorId};

#[derive(Debug, Clone, PartialEq)]
pub struct RopeSpec {
    pub theta: f64,
    /// Channels of a head that turn; the rest stay.
    pub dims: usize,
    pub scaling: Scaling,
}

/// How frequencies are changed for contexts longer than the original one.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    None,
    /// All divided by `factor`. Chen et al. 2023, arXiv:2306.15595.
    Linear {
        factor: f64,
    },
    /// Divided per pair: the `rope_freqs.weight` of a GGUF file.
    Factors(Vec<f32>),
    /// Llama 3.1: long waves divided by `factor`, short ones kept, a ramp between.
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        original: f64,
    },
    /// Peng et al. 2023, arXiv:2309.00071: NTK-by-parts, with sines and cosines scaled by `magnitude`.
    Yarn {
        factor: f64,
        beta_fast: f64,
        beta_slow: f64,
        original: f64,
        magnitude: f64,
    },
    /// Phi-3 LongRoPE, arXiv:2402.13753: one list of divisors up to the original context, another beyond it.
    Long {
        short: Vec<f32>,
        long: Vec<f32>,
        original: usize,
        magnitude: f64,
    },
}

pub struct Rope {
    pairs: Pairs,
    magnitude: f32,
    /// f32 [dims/2] in radians per position.
    frequencies: Tensor,
    /// Other frequencies for samples longer than this many tokens.
    beyond: Option<(usize, Tensor)>,
    /// The turns of the last rows, for all layers that share this: by the id of their positions.
    last: Mutex<Option<(TensorId, Tensor)>>,
}

impl Rope {
    pub fn new(spec: &RopeSpec, pairs: Pairs) -> Result<Rope> {
        let half = spec.dims / 2;
        let plain: Vec<f64> = (0..half)
            .map(|i| spec.theta.powf(-2.0 * i as f64 / spec.dims as f64))
            .collect();
        let tensor = |frequencies: Vec<f64>| {
            let frequencies = frequencies.into_iter().map(|f| f as f32).collect();
            Tensor::new(frequencies, [half])
        };
        let divided = |by: &[f32]| {
            plain
                .iter()
                .zip(by)
                .map(|(f, d)| f / f64::from(*d))
                .collect()
        };
        let (frequencies, magnitude): (Vec<f64>, f64) = match &spec.scaling {
            Scaling::None => (plain.clone(), 1.0),
            Scaling::Linear { factor } => (plain.iter().map(|f| f / factor).collect(), 1.0),
            Scaling::Factors(factors) => (divided(factors), 1.0),
            Scaling::Llama3 {
                factor,
                low,
                high,
                original,
            } => {
                let scaled = |f: &f64| llama3(*f, *factor, *low, *high, *original);
                (plain.iter().map(scaled).collect(), 1.0)
            }
            Scaling::Yarn {
                factor,
                beta_fast,
                beta_slow,
                original,
                magnitude,
            } => {
                let ramp = yarn_ramp(spec, *beta_fast, *beta_slow, *original);
                let mixed = plain
                    .iter()
                    .zip(ramp)
                    .map(|(f, keep)| f * keep + f / factor * (1.0 - keep));
                (mixed.collect(), *magnitude)
            }
            Scaling::Long {
                short, magnitude, ..
            } => (divided(short), *magnitude),
        };
        let beyond = match &spec.scaling {
            Scaling::Long { long, original, .. } => Some((*original, tensor(divided(long))?)),
            _ => None,
        };
        Ok(Rope {
            pairs,
            magnitude: magnitude as f32,
            frequencies: tensor(frequencies)?,
            beyond,
            last: Mutex::new(None),
        })
    }

    /// Turns x [time, heads, dim].
    pub fn forward(&self, x: &Tensor, rows: &Rows) -> Result<Tensor> {
        x.rope(&self.turns_for(rows)?, self.pairs)
    }

    fn turns_for(&self, rows: &Rows) -> Result<Tensor> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((positions, turns)) if *positions == rows.positions.id() => Ok(turns.clone()),
            _ => {
                let frequencies = self.frequencies_for(rows)?;
                let turns = turns(&rows.positions, &frequencies, self.magnitude)?;
                *last = Some((rows.positions.id(), turns.clone()));
                Ok(turns)
            }
        }
    }

    /// [dims/2], or [time, dims/2] when samples of a pass differ in which frequencies they need.
    fn frequencies_for(&self, rows: &Rows) -> Result<Tensor> {
        let Some((original, long)) = &self.beyond else {
            return Ok(self.frequencies.clone());
        };
        let (positions, starts) = (rows.positions.ids()?, rows.starts.ids()?);
        // The length of a row's sample: one more than the last position among rows with the same start.
        let mut is_long = vec![false; positions.len()];
        let mut end = positions.len();
        while end > 0 {
            let first = (0..end)
                .rev()
                .take_while(|&row| starts[row] == starts[end - 1])
                .last()
                .unwrap_or(end - 1);
            is_long[first..end].fill(positions[end - 1] as usize >= *original);
            end = first;
        }
        if is_long.iter().all(|long| !long) {
            return Ok(self.frequencies.clone());
        }
        if is_long.iter().all(|long| *long) {
            return Ok(long.clone());
        }
        let half = long.shape().elements();
        let (short, long) = (self.frequencies.values()?, long.values()?);
        let per_row = is_long
            .iter()
            .flat_map(|is_long| if *is_long { long } else { short });
        Tensor::new(per_row.copied().collect(), [is_long.len(), half])
    }
}

/// Llama 3.1's rule by wavelength; `low` and `high` are waves per original context.
fn llama3(frequency: f64, factor: f64, low: f64, high: f64, original: f64) -> f64 {
    let waves = original * frequency / TAU;
    if waves < low {
        return frequency / factor;
    }
    if waves > high {
        return frequency;
    }
    let smooth = (waves - low) / (high - low);
    (1.0 - smooth) * frequency / factor + smooth * frequency
}

/// How much of the original frequency each pair keeps: 1 for fast pairs, 0 for slow ones.
fn yarn_ramp(spec: &RopeSpec, beta_fast: f64, beta_slow: f64, original: f64) -> Vec<f64> {
    let dims = spec.dims as f64;
    let pair_turning =
        |turns: f64| dims * (original / (turns * TAU)).ln() / (2.0 * spec.theta.ln());
    let low = pair_turning(beta_fast).floor().max(0.0);
    let high = pair_turning(beta_slow).ceil().min(dims - 1.0);
    let width = if high > low { high - low } else { 0.001 };
    (0..spec.dims / 2)
        .map(|i| 1.0 - ((i as f64 - low) / width).clamp(0.0, 1.0))
        .collect()
}
