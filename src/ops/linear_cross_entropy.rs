//! Cross-entropy of x·Wᵀ without the logits: the vocabulary is walked once, in slices, with a running maximum m and sum.
//! Per row, with z = cap·tanh(x·w/cap) or x·w:  loss = log Σ exp(z) − z[target].
//! Saved for the gradient: dx of a unit dy, Σ_v (p_v − onehot_v)·z'_v·W_v, rescaled whenever m grows.

use crate::backend::cpu::{View, exp, for_items, for_rows, matmul, max, replace_and_sum, tanh};
use crate::bail;
use crate::error::Result;
use crate::ops::cross_entropy::{IGNORED, check_targets};
use crate::ops::linear::for_panels;
use crate::quant::Weight;
use crate::shape::Shape;
use crate::tensor::{Op, Tensor, apply};

struct LinearCrossEntropy {
    weight: Weight,
    soft_cap: Option<f32>,
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
    /// self: [time, width]; `weight` [vocab, width], frozen; `targets`: u32 [time], `IGNORED` for none.
    /// Gives the loss of every row, [time], in nats; 0 where ignored.
    pub fn linear_cross_entropy(
        &self,
        weight: &Weight,
        targets: &Tensor,
        soft_cap: Option<f32>,
    ) -> Result<Tensor> {
        let op = LinearCrossEntropy {
            weight: weight.clone(),
            soft_cap,
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
            logits.iter_mut().for_each(|z| *z = cap * tanh(*z / cap));
        }
        let max = state.max.max(max(logits));
        let slope = |z: f32| self.soft_cap.map_or(1.0, |cap| 1.0 - (z / cap).powi(2));
        if let Some(column) = target {
            state.target = logits[column];
            state.target_slope = slope(logits[column]);
        }
        state.shrink = (state.max - max).exp();
        state.max = max;
        let sum = replace_and_sum(logits, |z| {
            let e = exp(z - max);
            (e * slope(z), e)
        });
        state.sum = state.sum * state.shrink + sum;
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
        let mut gradient = vec![0.0; if self.gradient { hidden.len() } else { 0 }];
        let mut logits = Vec::new();
        let threads = rayon::current_num_threads();
        for_panels(&self.weight, |first, panel| {
            let count = panel.len() / width;
            let panel = View::rows(panel, width);
            logits.resize(rows.len() * count, 0.0);
            let size = (rows.len(), count, width);
            matmul(
                size,
                1.0,
                View::rows(&hidden, width),
                panel.transposed(),
                0.0,
                &mut logits,
                count,
                threads,
            );
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
                let size = (rows.len(), width, count);
                matmul(
                    size,
                    1.0,
                    View::rows(&logits, count),
                    panel,
                    1.0,
                    &mut gradient,
                    width,
                    threads,
                );
            }
            Ok(())
        })?;
        for (&row, state) in rows.iter().zip(&states) {
            y[row] = state.max + state.sum.ln() - state.target;
        }
        if !self.gradient {
            return Ok(None);
        }
        let mut saved = vec![0.0; values.len()];
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
        Ok(Some(Tensor::new(saved, x[0].shape().clone())?))
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
        let mut dx = vec![0.0; saved.len()];
        for_rows(&mut dx, width, |row, dx| {
            for (dx, saved) in dx.iter_mut().zip(&saved[row * width..]) {
                *dx = dy[row] * saved;
            }
        });
        Ok(vec![Some(Tensor::new(dx, x[0].shape().clone())?), None])
    }
}
