//! Rotary position embedding: pairs of channels turn by an angle that grows with position.
//! Su et al. 2021, arXiv:2104.09864, eq. 34.

use crate::backend::cpu::for_rows;
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

/// Which channels form pair i of `rotary` channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairs {
    /// (i, i + rotary/2), as in the Hugging Face checkpoints.
    Halves,
    /// (2i, 2i + 1), as in GGUF files of the llama architecture.
    Interleaved,
}

#[derive(Debug, Clone, Copy)]
struct Rope {
    pairs: Pairs,
    /// Multiplies sine and cosine (1, or the attention factor of a rope scaling).
    magnitude: f32,
    /// 1, or −1 to turn back: the gradient.
    sign: f32,
}

impl Tensor {
    /// Rotates self [time, heads, dim] by angle positions[t]·frequencies[i].
    ///
    /// `positions`: u32 [time]. `frequencies`: [rotary/2], or [time, rotary/2] when rows differ, in radians per position,
    /// rotary ≤ dim; channels past rotary stay. Rotated channels are also scaled by `magnitude`.
    pub fn rope(
        &self,
        positions: &Tensor,
        frequencies: &Tensor,
        pairs: Pairs,
        magnitude: f32,
    ) -> Result<Tensor> {
        let sign = 1.0;
        let rope = Rope {
            pairs,
            magnitude,
            sign,
        };
        apply(rope, &[self, positions, frequencies])
    }
}

impl Op for Rope {
    fn name(&self) -> &'static str {
        "rope"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let (heads, positions, half) = (x[0].shape(), x[1].shape(), x[2].shape().last());
        let rows = x[2].shape().rows();
        if heads.len() != 3
            || positions[..] != heads[..1]
            || half * 2 > heads.last()
            || (rows != 1 && rows != heads[0])
        {
            bail!(
                Internal,
                "rope: x {heads} must be [time, heads, dim], positions {positions} [time], frequencies {} at most [time, dim/2]",
                x[2].shape()
            );
        }
        Ok(heads.clone())
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (values, positions, frequencies) = (x[0].values()?, x[1].ids()?, x[2].values()?);
        let (dim, half) = (x[0].shape()[2], x[2].shape().last());
        let per_row = x[2].shape().rows() > 1;
        let token = x[0].shape()[1] * dim;
        for_rows(y, token, |time, y| {
            let x = &values[time * token..(time + 1) * token];
            y.copy_from_slice(x);
            let frequencies = &frequencies[if per_row { time * half } else { 0 }..][..half];
            for (i, frequency) in frequencies.iter().enumerate() {
                let angle = f64::from(positions[time]) * f64::from(*frequency);
                let (sin, cos) = (self.sign * angle.sin() as f32, angle.cos() as f32);
                let (sin, cos) = (sin * self.magnitude, cos * self.magnitude);
                let (first, second) = match self.pairs {
                    Pairs::Halves => (i, i + half),
                    Pairs::Interleaved => (2 * i, 2 * i + 1),
                };
                for head in (0..token).step_by(dim) {
                    let (a, b) = (x[head + first], x[head + second]);
                    y[head + first] = a * cos - b * sin;
                    y[head + second] = a * sin + b * cos;
                }
            }
        });
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::inputs(&[1, 2])
    }

    /// A rotation's transpose turns back.
    fn vjp(
        &self,
        x: &[Tensor],
        _wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let back = Rope {
            sign: -self.sign,
            ..*self
        };
        Ok(vec![Some(apply(back, &[dy, &x[1], &x[2]])?), None, None])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{check, constants, ids, random, values};

    #[test]
    fn both_pairings_and_their_gradients_follow_the_formula() {
        let positions = [0, 1, 7, 3, 1000];
        // Rotary channels of dim: one pair, all, some. Frequencies for all rows, or for each.
        for (heads, dim, half) in [(1, 2, 1), (3, 6, 3), (2, 7, 2), (2, 33, 16)] {
            for (pairs, rows) in [
                (Pairs::Halves, 1),
                (Pairs::Interleaved, 1),
                (Pairs::Halves, 5),
            ] {
                check(
                    &[
                        values([5, heads, dim]),
                        ids(&positions),
                        constants([rows, half]),
                    ],
                    |x| x[0].rope(&x[1], &x[2], pairs, 1.25),
                    |x| {
                        let mut y = x[0].clone();
                        for (row, y) in y.chunks_mut(dim).enumerate() {
                            let time = row / heads;
                            let frequencies = &x[2][if rows > 1 { time * half } else { 0 }..];
                            for (i, frequency) in frequencies.iter().take(half).enumerate() {
                                let (sin, cos) = (x[1][time] * frequency).sin_cos();
                                let (a, b) = match pairs {
                                    Pairs::Halves => (i, i + half),
                                    Pairs::Interleaved => (2 * i, 2 * i + 1),
                                };
                                let turned = [y[a] * cos - y[b] * sin, y[a] * sin + y[b] * cos];
                                (y[a], y[b]) = (turned[0] * 1.25, turned[1] * 1.25);
                            }
                        }
                        y
                    },
                );
            }
        }
    }

    #[test]
    fn inputs_that_do_not_belong_together_are_refused() {
        let positions = |time: usize| Tensor::of_u32(vec![1; time], [time]).unwrap();
        let turn = |x: [usize; 3], time: usize, frequencies: [usize; 2]| {
            random(x).rope(&positions(time), &random(frequencies), Pairs::Halves, 1.0)
        };
        assert!(turn([4, 2, 6], 4, [4, 3]).is_ok());
        assert!(turn([0, 2, 6], 0, [1, 3]).is_ok());
        assert!(turn([4, 2, 6], 3, [1, 3]).is_err());
        assert!(turn([4, 2, 6], 4, [1, 4]).is_err());
        assert!(turn([4, 2, 6], 4, [2, 3]).is_err());
    }
}
