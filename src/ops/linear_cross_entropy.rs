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

/// Rows of the vocabulary whose logits are in memory at a time, for so many tokens.
pub(crate) fn slice_rows(tokens: usize) -> usize {
    (SLICE_VALUES / tokens.max(1)).clamp(LEAST_SLICE, MOST_SLICE)
}

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
        let slice = slice_rows(rows.len());
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
mod tests {
    use super::*;
    use crate::backend::Bytes;
    use crate::ops::check::{check, close, elements, flat, gradients, ids, random, scaled, weight};
    use crate::quant::Format;

    /// log Σ exp(z) − z[target] with z = W·x, capped.
    fn formula(w: &[f64], width: usize, cap: Option<f32>, x: &[Vec<f64>]) -> Vec<f64> {
        let loss = |(x, target): (&[f64], &f64)| {
            if *target as u32 == IGNORED {
                return 0.0;
            }
            let logit = |w: &[f64]| {
                let z = w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
                cap.map_or(z, |cap| f64::from(cap) * (z / f64::from(cap)).tanh())
            };
            let z: Vec<f64> = w.chunks(width).map(logit).collect();
            let max = z.iter().copied().fold(f64::MIN, f64::max);
            max + z.iter().map(|z| (z - max).exp()).sum::<f64>().ln() - z[*target as usize]
        };
        x[0].chunks(width).zip(&x[1]).map(loss).collect()
    }

    fn follows(format: Format, vocab: usize, width: usize, targets: &[u32]) {
        let w = weight(format, vocab, width);
        let elements = elements(&w);
        for cap in [None, Some(3.0)] {
            check(
                &[scaled([targets.len(), width], 1.5), ids(targets)],
                |x| x[0].linear_cross_entropy(&w, &x[1], cap),
                |x| formula(&elements, width, cap, x),
            );
        }
    }

    #[test]
    fn losses_and_their_gradients_follow_the_formula() {
        follows(Format::F32, 1, 1, &[0]);
        follows(Format::F32, 7, 33, &[6, IGNORED, 0]);
        follows(Format::F16, 257, 7, &[IGNORED, 256, 3, 3, 0, IGNORED, 99]);
        follows(Format::Q4_1, 33, 64, &[32, 1]);
        follows(Format::Q6K, 7, 256, &[IGNORED]);
    }

    #[test]
    fn several_panels_follow_the_formula() {
        // Panels of 8192 rows; targets in the first, the second and the third.
        follows(Format::Q8_0, 16_391, 32, &[16_390, 9_000]);
        follows(Format::F32, 16_391, 32, &[8_191, IGNORED]);
    }

    #[test]
    fn the_parts_one_by_one_give_the_same() {
        let w = weight(Format::Q5_0, 257, 64);
        let x = random([7, 64]).scale(2.0).unwrap().tracked_leaf();
        let targets = Tensor::of_u32(vec![0, 256, IGNORED, 3, 4, 200, 6], [7]).unwrap();
        for cap in [None, Some(5.0)] {
            let logits = x.linear(&w).unwrap();
            let capped = cap.map_or(Ok(logits.clone()), |cap| logits.soft_cap(cap));
            let parts = capped.unwrap().cross_entropy(&targets).unwrap();
            let whole = x.linear_cross_entropy(&w, &targets, cap).unwrap();
            close("losses", whole.values().unwrap(), &flat(&parts));
            let dy = [0.5, 1.0, 2.0, -1.0, 0.25, 1.0, 3.0];
            let (whole, parts) = (gradients(&whole, &dy), gradients(&parts, &dy));
            let parts = flat(parts.get(&x).unwrap());
            close("dx", whole.get(&x).unwrap().values().unwrap(), &parts);
        }
    }

    #[test]
    fn huge_logits_stay_finite_while_the_maximum_grows() {
        // The largest logit of row 0 is in the last of three panels, that of row 1 in the first.
        let (vocab, width) = (20_000, 32);
        let mut values = vec![0.0; vocab * width];
        for row in 0..vocab {
            values[row * width] = row as f32 - 1e4;
        }
        let w = Weight::new(Format::F32, [vocab, width].into(), Bytes::from_f32(values)).unwrap();
        let mut values = vec![0.0; 2 * width];
        (values[0], values[width]) = (1.0, -1.0);
        let x = Tensor::leaf(values, [2, width]).unwrap();
        let targets = [19_999, 19_999];
        let y = x.linear_cross_entropy(&w, &Tensor::of_u32(targets.to_vec(), [2]).unwrap(), None);
        let y = y.unwrap();
        let x64 = [flat(&x), targets.map(f64::from).to_vec()];
        close(
            "losses",
            y.values().unwrap(),
            &formula(&elements(&w), width, None, &x64),
        );
        let grads = gradients(&y, &[1.0, 1.0]);
        let dx = grads.get(&x).unwrap().values().unwrap();
        assert!(dx.iter().all(|dx| dx.is_finite()), "{dx:?}");
        // dx = Σ p·w − w[target]; p falls by e from row to row, so Σ p·w is 1/(e − 1) from the largest.
        let below = 1.0 / (1f64.exp() - 1.0);
        assert!((f64::from(dx[0]) + below).abs() < 1e-2, "{}", dx[0]);
        assert!(
            (f64::from(dx[width]) + 19_999.0 - below).abs() < 1e-2,
            "{}",
            dx[width]
        );
    }

    #[test]
    fn inputs_that_do_not_belong_together_are_refused() {
        let w = weight(Format::F32, 7, 3);
        let targets = |ids: &[u32]| Tensor::of_u32(ids.to_vec(), [ids.len()]).unwrap();
        assert!(
            random([2, 4])
                .linear_cross_entropy(&w, &targets(&[0, 0]), None)
                .is_err()
        );
        assert!(
            random([2, 3])
                .linear_cross_entropy(&w, &targets(&[0]), None)
                .is_err()
        );
        assert!(
            random([2, 3])
                .linear_cross_entropy(&w, &targets(&[0, 7]), None)
                .is_err()
        );
        let none = random([0, 3]).linear_cross_entropy(&w, &targets(&[]), None);
        assert_eq!(none.unwrap().shape()[..], [0]);
    }
}
