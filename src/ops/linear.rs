//! y = x·Wᵀ with a frozen weight, and its gradient dx = dy·W. The weight stays packed; pieces of it that fit the cache
//! are unpacked, used, and forgotten.

use crate::backend::cpu::product::{Kernel, Side, product};
use crate::bail;
use crate::error::Result;
use crate::quant::Weight;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

/// Which way the weight [out, in] is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// [.., in] to [.., out]
    Forward,
    /// [.., out] to [.., in]
    Backward,
}

struct Linear {
    weight: Weight,
    direction: Direction,
}

impl std::fmt::Debug for Linear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (format, shape) = (self.weight.format(), self.weight.shape());
        write!(f, "Linear({format:?} {shape}, {:?})", self.direction)
    }
}

impl Tensor {
    /// self·Wᵀ: [.., in] with the frozen `weight` [out, in] gives [.., out].
    pub fn linear(&self, weight: &Weight) -> Result<Tensor> {
        let direction = Direction::Forward;
        apply(
            Linear {
                weight: weight.clone(),
                direction,
            },
            &[self],
        )
    }

    /// self·W: [.., out] with the frozen `weight` [out, in] gives [.., in].
    pub fn linear_transposed(&self, weight: &Weight) -> Result<Tensor> {
        let direction = Direction::Backward;
        apply(
            Linear {
                weight: weight.clone(),
                direction,
            },
            &[self],
        )
    }
}

impl Op for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let weight = self.weight.shape();
        let (from, to) = match self.direction {
            Direction::Forward => (weight.last(), weight.rows()),
            Direction::Backward => (weight.rows(), weight.last()),
        };
        if x[0].shape().last() != from {
            bail!(
                Internal,
                "linear: weight {weight} ({:?}) needs a last axis of {from}, x is {}",
                self.direction,
                x[0].shape()
            );
        }
        Ok(x[0].shape().with_last(to))
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let kernel = Kernel::of(self.weight.precision())?;
        let side = match self.direction {
            Direction::Forward => Side::Transposed,
            Direction::Backward => Side::AsIs,
        };
        let time = x[0].shape().rows();
        product(kernel, side, time, x[0].values()?, &self.weight, false, y)?;
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::NOTHING
    }

    fn vjp(
        &self,
        _x: &[Tensor],
        _wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(match self.direction {
            Direction::Forward => dy.linear_transposed(&self.weight)?,
            Direction::Backward => dy.linear(&self.weight)?,
        })])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{check, close, elements, flat, random, values, weight};
    use crate::quant::Format;

    /// x·Wᵀ for `x` [.., columns] and `w` [.., columns].
    fn forward(x: &[f64], w: &[f64], columns: usize) -> Vec<f64> {
        let dot = |x: &[f64], w: &[f64]| x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>();
        let row = |x| w.chunks(columns).map(move |w| dot(x, w));
        x.chunks(columns).flat_map(row).collect()
    }

    /// dy·W for `dy` [.., rows] and `w` [rows, columns].
    fn backward(dy: &[f64], w: &[f64], columns: usize) -> Vec<f64> {
        let rows = w.len() / columns;
        let mut dx = vec![0.0; dy.len() / rows * columns];
        for (dx, dy) in dx.chunks_mut(columns).zip(dy.chunks(rows)) {
            for (w, dy) in w.chunks(columns).zip(dy) {
                dx.iter_mut().zip(w).for_each(|(dx, w)| *dx += dy * w);
            }
        }
        dx
    }

    #[test]
    fn every_format_multiplies_both_ways_like_its_unpacked_values() {
        for format in Format::ALL {
            let (rows, columns) = (7, format.block_elements().max(32) * 2);
            let w = weight(format, rows, columns);
            let elements = elements(&w);
            check(
                &[values([3, columns])],
                |x| x[0].linear(&w),
                |x| forward(&x[0], &elements, columns),
            );
            check(
                &[values([3, rows])],
                |x| x[0].linear_transposed(&w),
                |x| backward(&x[0], &elements, columns),
            );
        }
    }

    #[test]
    fn odd_sizes_multiply_both_ways() {
        for (time, rows, columns) in [(1, 1, 1), (33, 7, 1), (7, 33, 257), (2, 257, 7)] {
            let w = weight(Format::F16, rows, columns);
            let elements = elements(&w);
            check(
                &[values([time, columns])],
                |x| x[0].linear(&w),
                |x| forward(&x[0], &elements, columns),
            );
            check(
                &[values([time, rows])],
                |x| x[0].linear_transposed(&w),
                |x| backward(&x[0], &elements, columns),
            );
        }
    }

    #[test]
    fn several_pieces_of_the_weight_give_one_product() {
        for format in [Format::F32, Format::Q4_1] {
            let (rows, columns) = ((1 << 14) + 33, 32);
            let w = weight(format, rows, columns);
            let elements = elements(&w);
            let x = random([3, columns]);
            let expected = forward(&flat(&x), &elements, columns);
            close(
                "forward",
                x.linear(&w).unwrap().values().unwrap(),
                &expected,
            );
            let dy = random([3, rows]);
            let expected = backward(&flat(&dy), &elements, columns);
            let dx = dy.linear_transposed(&w).unwrap();
            close("backward", dx.values().unwrap(), &expected);
        }
    }

    #[test]
    fn a_last_axis_of_another_length_is_refused() {
        let w = weight(Format::F32, 7, 3);
        let x = Tensor::new(vec![0.0; 14], [2, 7]).unwrap();
        assert!(x.linear(&w).is_err() && x.linear_transposed(&w).is_ok());
        let x = Tensor::new(vec![0.0; 6], [2, 3]).unwrap();
        assert!(x.linear(&w).is_ok() && x.linear_transposed(&w).is_err());
    }

    #[test]
    fn no_rows_give_no_rows() {
        let w = weight(Format::F32, 7, 3);
        let y = Tensor::new(vec![], [0, 3]).unwrap().linear(&w).unwrap();
        assert_eq!(y.shape()[..], [0, 7]);
        assert_eq!(y.linear_transposed(&w).unwrap().shape()[..], [0, 3]);
    }
}
