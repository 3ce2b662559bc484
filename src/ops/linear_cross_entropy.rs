//! Cross-entropy of x·Wᵀ without the logits: the vocabulary is walked once, in slices, with a running maximum m and sum.
//! Per row, with z = cap·tanh(x·w/cap) or x·w:  loss = log Σ exp(z) − z[target].
//! Saved for the gradient: dx of a unit dy, Σ_v (p_v − onehot_v)·z'_v·W_v, rescaled whenever m grows.

use crate::backend::Buffer;
use crate::backend::cpu::product::{Kernel, RowSpan, Side, product};
use crate::backend::cpu::{exp, for_items, for_rows, max, replace_and_sum, tanh, vectorised};
use crate::bail;
use crate::error::Result;
use crate::ops::cross_entropy::{IGNORED, check_targets};
use crate::quant::Weight;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

/// Logits in memory at a time: 4 MiB, for which the vocabulary is walked in slices of at least and at most so many rows.
const SLICE_VALUES: usize = 1 << 20;
const LEAST_SLICE: usize = 256;
const MOST_SLICE: usize = 8192;

/// Rows of the vocabulary whose logits are in memory at a time, for so many tokens: as many as `asked`, if it says.
pub(crate) fn slice_rows(asked: Option<usize>, tokens: usize) -> usize {
    asked.unwrap_or((SLICE_VALUES / tokens.max(1)).clamp(LEAST_SLICE, MOST_SLICE))
}

struct LinearCrossEntropy {
    weight: Weight,
    soft_cap: Option<f32>,
    /// Rows of the vocabulary in a slice, when that is asked for.
    slice: Option<usize>,
    /// Whether a backward will come.
    gradient: bool,
}

impl std::fmt::Debug for LinearCrossEntropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (format, shape) = (self.weight.format(), self.weight.shape());
        write!(
            f,
            "LinearCrossEntropy({format:?} {shape}, {:?})",
            self.soft_cap
        )
    }
}

impl Tensor {
    /// self: [time, width]; `weight` [vocab, width], frozen; `targets`: u32 [time], `IGNORED` for none. `slice`: rows of the
    /// vocabulary whose logits are in memory at a time, at least 1; none for 4 MiB of logits.
    /// Gives the loss of every row, [time], in nats; 0 where ignored.
    pub fn linear_cross_entropy(
        &self,
        weight: &Weight,
        targets: &Tensor,
        soft_cap: Option<f32>,
        slice: Option<usize>,
    ) -> Result<Tensor> {
        let op = LinearCrossEntropy {
            weight: weight.clone(),
            soft_cap,
            slice,
            gradient: self.tracked(),
        };
        apply(op, &[self, targets])
    }
}

/// The running state of one row: maximum, Σ exp(z − max), and z[target].
#[derive(Clone, Copy)]
struct Running {
    max: f32,
    sum: f32,
    target: f32,
    target_slope: f32,
    /// What the gradient so far must be multiplied by after the last slice.
    shrink: f32,
}

impl LinearCrossEntropy {
    /// Takes a slice of logits in: updates the state and turns the logits into exp(z − max)·z'.
    fn take_in(&self, state: &mut Running, logits: &mut [f32], target: Option<usize>) {
        if let Some(cap) = self.soft_cap {
            soften(logits, cap);
        }
        let max = state.max.max(largest(logits));
        let slope = |z: f32| self.soft_cap.map_or(1.0, |cap| 1.0 - (z / cap).powi(2));
        if let Some(column) = target {
            state.target = logits[column];
            state.target_slope = slope(logits[column]);
        }
        state.shrink = (state.max - max).exp();
        state.max = max;
        let sum = match self.soft_cap {
            None => exponentials(logits, max),
            Some(cap) => capped_exponentials(logits, max, cap),
        };
        state.sum = state.sum * state.shrink + sum;
    }
}

vectorised! {
    fn soften(logits: &mut [f32], cap: f32) {
        for z in logits {
            *z = cap * tanh(*z / cap);
        }
    }
}

vectorised! {
    fn largest(logits: &[f32]) -> f32 {
        max(logits)
    }
}

vectorised! {
    /// Replaces z by exp(z − max); gives the sum.
    fn exponentials(logits: &mut [f32], max: f32) -> f32 {
        replace_and_sum(logits, |z| {
            let e = exp(z - max);
            (e, e)
        })
    }
}

vectorised! {
    /// Replaces z by exp(z − max) times the slope of the soft cap there; gives the sum of the exponentials.
    fn capped_exponentials(logits: &mut [f32], max: f32, cap: f32) -> f32 {
        replace_and_sum(logits, |z| {
            let e = exp(z - max);
            (e * (1.0 - (z / cap) * (z / cap)), e)
        })
    }
}

impl Op for LinearCrossEntropy {
    fn name(&self) -> &'static str {
        "linear_cross_entropy"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let (weight, rows) = (self.weight.shape(), x[0].shape());
        if rows.last() != weight.last() {
            bail!(
                Internal,
                "linear_cross_entropy: x {rows} and weight {weight}"
            );
        }
        check_targets(self.name(), rows.rows(), weight.rows(), x[1])?;
        Ok(Shape::from([rows.rows()]))
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (values, targets) = (x[0].values()?, x[1].ids()?);
        let width = self.weight.shape().last();
        // Only rows with a target take part.
        let rows: Vec<usize> = (0..targets.len())
            .filter(|&row| targets[row] != IGNORED)
            .collect();
        let hidden: Vec<f32> = rows
            .iter()
            .flat_map(|row| &values[row * width..(row + 1) * width])
            .copied()
            .collect();
        let start = Running {
            max: f32::NEG_INFINITY,
            sum: 0.0,
            target: 0.0,
            target_slope: 1.0,
            shrink: 1.0,
        };
        let mut states = vec![start; rows.len()];
        let mut gradient = Buffer::zeros(if self.gradient { hidden.len() } else { 0 });
        let kernel = Kernel::of(self.weight.precision())?;
        let vocab = self.weight.shape().rows();
        let slice = slice_rows(self.slice, rows.len()).max(1);
        let mut logits = Buffer::stale(rows.len() * slice.min(vocab));
        for first in (0..vocab).step_by(slice) {
            let count = slice.min(vocab - first);
            let span = RowSpan {
                matrix: &self.weight,
                rows: first..first + count,
            };
            let logits = &mut logits[..rows.len() * count];
            let (side, m) = (Side::Transposed, rows.len());
            product(kernel, side, m, &hidden, &span, false, logits)?;
            let mut work: Vec<_> = logits.chunks_mut(count).zip(&mut states).collect();
            for_items(&mut work, count, |row, (logits, state)| {
                let target = (targets[rows[row]] as usize)
                    .checked_sub(first)
                    .filter(|&column| column < count);
                self.take_in(state, logits, target);
            });
            if self.gradient {
                for_rows(&mut gradient, width, |row, gradient| {
                    let shrink = states[row].shrink;
                    gradient.iter_mut().for_each(|g| *g *= shrink);
                });
                product(kernel, Side::AsIs, m, logits, &span, true, &mut gradient)?;
            }
        }
        y.fill(0.0);
        for (&row, state) in rows.iter().zip(&states) {
            y[row] = state.max + state.sum.ln() - state.target;
        }
        if !self.gradient {
            return Ok(None);
        }
        let mut saved = Buffer::zeros(values.len());
        let mut target_row = vec![0.0; width];
        for (at, (&row, state)) in rows.iter().zip(&states).enumerate() {
            self.weight
                .unpack_rows(targets[row] as usize, &mut target_row)?;
            let saved = &mut saved[row * width..(row + 1) * width];
            for ((saved, g), w) in saved
                .iter_mut()
                .zip(&gradient[at * width..])
                .zip(&target_row)
            {
                *saved = g / state.sum - state.target_slope * w;
            }
        }
        Ok(Some(Tensor::of(saved, x[0].shape().clone())?))
    }

    fn reads(&self) -> Reads {
        Reads::NOTHING
    }

    fn vjp(
        &self,
        x: &[Tensor],
        _wanted: &[bool],
        _y: &Tensor,
        saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let Some(saved) = saved else {
            bail!(
                Internal,
                "linear_cross_entropy: the forward pass saved no gradient"
            );
        };
        let (saved, dy, width) = (saved.values()?, dy.values()?, x[0].shape().last());
        let mut dx = Buffer::stale(saved.len());
        for_rows(&mut dx, width, |row, dx| {
            for (dx, saved) in dx.iter_mut().zip(&saved[row * width..]) {
                *dx = dy[row] * saved;
            }
        });
        Ok(vec![Some(Tensor::of(dx, x[0].shape().clone())?), None])
    }
}

#[cfg(test)]
mod tests;
