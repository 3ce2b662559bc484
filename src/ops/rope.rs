//! Rotary position embedding: pairs of channels turn by an angle that grows with position.
//! Su et al. 2021, arXiv:2104.09864, eq. 34.

use crate::backend::cpu::{for_rows, vectorised};
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
    /// 1, or −1 to turn back: the gradient.
    sign: f32,
}

/// Sines and cosines of the angles positions[t]·frequencies[i], times `magnitude` (1, or the attention factor of a rope
/// scaling): [time, 2, rotary/2], sines first. Computed once for all layers.
///
/// `positions`: u32 [time]. `frequencies`: [rotary/2], or [time, rotary/2] when rows differ, in radians per position.
pub fn turns(positions: &Tensor, frequencies: &Tensor, magnitude: f32) -> Result<Tensor> {
    let (half, rows) = (frequencies.shape().last(), frequencies.shape().rows());
    let (positions, values) = (positions.ids()?, frequencies.values()?);
    if rows != 1 && rows != positions.len() {
        let time = positions.len();
        bail!(
            Internal,
            "rope: {time} positions and frequencies {}",
            frequencies.shape()
        );
    }
    let mut turns = vec![0.0; positions.len() * 2 * half];
    for_rows(&mut turns, 2 * half, |time, turns| {
        let frequencies = &values[if rows > 1 { time * half } else { 0 }..][..half];
        for (i, frequency) in frequencies.iter().enumerate() {
            let angle = f64::from(positions[time]) * f64::from(*frequency);
            let (sin, cos) = angle.sin_cos();
            turns[i] = sin as f32 * magnitude;
            turns[half + i] = cos as f32 * magnitude;
        }
    });
    Tensor::new(turns, [positions.len(), 2, half])
}

impl Tensor {
    /// Rotates self [time, heads, dim] by `turns` [time, 2, rotary/2], rotary ≤ dim; channels past rotary stay.
    pub fn rope(&self, turns: &Tensor, pairs: Pairs) -> Result<Tensor> {
        let sign = 1.0;
        apply(Rope { pairs, sign }, &[self, turns])
    }
}

vectorised! {
    /// One head, whose channel i belongs to channel i + rotary/2.
    fn turn_halves(sign: f32, sines: &[f32], cosines: &[f32], x: &[f32], y: &mut [f32]) {
        let half = sines.len();
        let (x, rest) = x.split_at(2 * half);
        let (y, y_rest) = y.split_at_mut(2 * half);
        let ((a, b), (ya, yb)) = (x.split_at(half), y.split_at_mut(half));
        let turns = sines.iter().zip(cosines);
        for (((ya, yb), (a, b)), (sin, cos)) in ya.iter_mut().zip(yb).zip(a.iter().zip(b)).zip(turns) {
            *ya = a * cos - b * (sign * sin);
            *yb = a * (sign * sin) + b * cos;
        }
        y_rest.copy_from_slice(rest);
    }
}

/// One head of interleaved pairs.
fn turn_pairs(sign: f32, sines: &[f32], cosines: &[f32], x: &[f32], y: &mut [f32]) {
    y.copy_from_slice(x);
    let pairs = y.as_chunks_mut::<2>().0.iter_mut();
    for ([a, b], (sin, cos)) in pairs.zip(sines.iter().zip(cosines)) {
        let sin = sign * sin;
        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
    }
}

impl Op for Rope {
    fn name(&self) -> &'static str {
        "rope"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let (heads, turns) = (x[0].shape(), x[1].shape());
        let fits = heads.len() == 3
            && turns.len() == 3
            && turns[0] == heads[0]
            && turns[1] == 2
            && turns[2] * 2 <= heads[2];
        if !fits {
            bail!(
                Internal,
                "rope: x {heads} must be [time, heads, dim], turns {turns} [time, 2, at most dim/2]"
            );
        }
        Ok(heads.clone())
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (values, turns) = (x[0].values()?, x[1].values()?);
        let (dim, half) = (x[0].shape()[2], x[1].shape()[2]);
        let token = x[0].shape()[1] * dim;
        let turn = match self.pairs {
            Pairs::Halves => turn_halves,
            Pairs::Interleaved => turn_pairs,
        };
        for_rows(y, token, |time, y| {
            let x = &values[time * token..(time + 1) * token];
            let (sines, cosines) = turns[time * 2 * half..(time + 1) * 2 * half].split_at(half);
            for (x, y) in x.chunks(dim).zip(y.chunks_mut(dim)) {
                turn(self.sign, sines, cosines, x, y);
            }
        });
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::inputs(&[1])
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
        Ok(vec![Some(apply(back, &[dy, &x[1]])?), None])
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
                    |x| x[0].rope(&turns(&x[1], &x[2], 1.25)?, pairs),
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
            let turns = turns(&positions(time), &random(frequencies), 1.0)?;
            random(x).rope(&turns, Pairs::Halves)
        };
        assert!(turn([4, 2, 6], 4, [4, 3]).is_ok());
        assert!(turn([0, 2, 6], 0, [1, 3]).is_ok());
        assert!(turn([4, 2, 6], 3, [1, 3]).is_err());
        assert!(turn([4, 2, 6], 4, [1, 4]).is_err());
        assert!(turn([4, 2, 6], 4, [2, 3]).is_err());
    }
}
