//! y = a·b for two tensors of the graph, each maybe transposed: the products of an adapter.

use std::borrow::Cow;

use crate::backend::cpu::product::narrow::{NARROW, few_outputs, few_rows, few_terms, transposed};
use crate::backend::cpu::product::{self, Dense, Kernel, Precision, product};
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

/// Whether an operand enters the product as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    AsIs,
    Transposed,
}

#[derive(Debug)]
struct MatMul {
    a: Side,
    b: Side,
}

impl Tensor {
    /// self·other: [.., k] x [k, n] gives [.., n].
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        let (a, b) = (Side::AsIs, Side::AsIs);
        apply(MatMul { a, b }, &[self, other])
    }

    /// self·otherᵀ: [.., k] x [n, k] gives [.., n].
    pub fn matmul_t(&self, other: &Tensor) -> Result<Tensor> {
        let (a, b) = (Side::AsIs, Side::Transposed);
        apply(MatMul { a, b }, &[self, other])
    }

    /// selfᵀ·other: [.., m] x [.., n] gives [m, n], summed over all rows.
    pub fn t_matmul(&self, other: &Tensor) -> Result<Tensor> {
        let (a, b) = (Side::Transposed, Side::AsIs);
        apply(MatMul { a, b }, &[self, other])
    }
}

/// A tensor seen as a matrix: all axes but the last are rows.
fn matrix(x: &Tensor, side: Side) -> (usize, usize) {
    let (rows, columns) = (x.shape().rows(), x.shape().last());
    match side {
        Side::AsIs => (rows, columns),
        Side::Transposed => (columns, rows),
    }
}

/// The values of a matrix, the other way round where `side` is not as wanted.
fn laid(x: &Tensor, side: Side, wanted: Side) -> Result<Cow<'_, [f32]>> {
    let values = x.values()?;
    Ok(match side == wanted {
        true => Cow::Borrowed(values),
        false => Cow::Owned(transposed(values, x.shape().last())),
    })
}

impl Op for MatMul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let ((m, k), (inner, n)) = (matrix(x[0], self.a), matrix(x[1], self.b));
        let plain = self.a == Side::Transposed || x[1].shape().len() == 2;
        if k != inner || !plain {
            let (a, b) = (x[0].shape(), x[1].shape());
            bail!(Internal, "matmul: {a} ({:?}) by {b} ({:?})", self.a, self.b);
        }
        Ok(match self.a {
            Side::AsIs => x[0].shape().with_last(n),
            Side::Transposed => Shape::from([m, n]),
        })
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let ((m, k), (_, n)) = (matrix(x[0], self.a), matrix(x[1], self.b));
        if m == 0 || n == 0 || k == 0 {
            y.fill(0.0);
            return Ok(None);
        }
        let (a, b) = (x[0], x[1]);
        match self.a {
            Side::AsIs if n <= NARROW => {
                few_outputs(k, a.values()?, &laid(b, self.b, Side::Transposed)?, y);
            }
            Side::AsIs if k <= NARROW => {
                few_terms(k, a.values()?, &laid(b, self.b, Side::AsIs)?, None, y);
            }
            Side::Transposed if m <= NARROW && self.b == Side::AsIs => {
                few_rows(m, a.values()?, b.values()?, y);
            }
            Side::Transposed if n <= NARROW && self.b == Side::AsIs => {
                let mut turned = vec![0.0; y.len()];
                few_rows(n, b.values()?, a.values()?, &mut turned);
                y.copy_from_slice(&transposed(&turned, m));
            }
            _ => {
                let a = laid(a, self.a, Side::AsIs)?;
                let dense = Dense {
                    values: b.values()?,
                    columns: b.shape().last(),
                };
                let side = match self.b {
                    Side::AsIs => product::Side::AsIs,
                    Side::Transposed => product::Side::Transposed,
                };
                product(Kernel::of(Precision::F32)?, side, m, &a, &dense, false, y)?;
            }
        }
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::inputs(&[0, 1])
    }

    /// y = a·b: da = dy·bᵀ, db = aᵀ·dy.  y = a·bᵀ: da = dy·b, db = dyᵀ·a.  y = aᵀ·b: da = b·dyᵀ, db = a·dy.
    fn vjp(
        &self,
        x: &[Tensor],
        wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let (a, b) = (&x[0], &x[1]);
        let da = || match (self.a, self.b) {
            (Side::AsIs, Side::AsIs) => dy.matmul_t(b),
            (Side::AsIs, Side::Transposed) => dy.matmul(b),
            (Side::Transposed, _) => b.matmul_t(dy),
        };
        let db = || match (self.a, self.b) {
            (Side::AsIs, Side::AsIs) => a.t_matmul(dy),
            (Side::AsIs, Side::Transposed) => dy.t_matmul(a),
            (Side::Transposed, _) => a.matmul(dy),
        };
        Ok(vec![
            wanted[0].then(da).transpose()?,
            wanted[1].then(db).transpose()?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{check, values};

    /// Σ_l a(i, l)·b(l, j) for all i, j.
    fn product(
        (m, n, k): (usize, usize, usize),
        a: impl Fn(usize, usize) -> f64,
        b: impl Fn(usize, usize) -> f64,
    ) -> Vec<f64> {
        let at = |i: usize, j: usize| (0..k).map(|l| a(i, l) * b(l, j)).sum();
        (0..m * n).map(|ij| at(ij / n, ij % n)).collect()
    }

    #[test]
    fn all_three_products_and_their_gradients_follow_the_formula() {
        for size in [
            (1, 1, 1),
            (7, 3, 5),
            (33, 2, 7),
            (2, 33, 3),
            (1, 7, 257),
            (40, 33, 70),
            (37, 130, 9),
        ] {
            let (m, n, k) = size;
            check(
                &[values([m, k]), values([k, n])],
                |x| x[0].matmul(&x[1]),
                |x| product(size, |i, l| x[0][i * k + l], |l, j| x[1][l * n + j]),
            );
            check(
                &[values([m, k]), values([n, k])],
                |x| x[0].matmul_t(&x[1]),
                |x| product(size, |i, l| x[0][i * k + l], |l, j| x[1][j * k + l]),
            );
            check(
                &[values([k, m]), values([k, n])],
                |x| x[0].t_matmul(&x[1]),
                |x| product(size, |i, l| x[0][l * m + i], |l, j| x[1][l * n + j]),
            );
        }
    }

    #[test]
    fn leading_axes_are_rows() {
        let size = (6, 5, 7);
        check(
            &[values([2, 3, 7]), values([5, 7])],
            |x| {
                let y = x[0].matmul_t(&x[1])?;
                assert_eq!(y.shape()[..], [2, 3, 5]);
                Ok(y)
            },
            |x| product(size, |i, l| x[0][i * 7 + l], |l, j| x[1][j * 7 + l]),
        );
    }

    #[test]
    fn lengths_that_do_not_meet_are_refused() {
        let x = |shape: &[usize]| Tensor::new(vec![0.0; shape.iter().product()], shape).unwrap();
        assert!(x(&[2, 3]).matmul(&x(&[2, 3])).is_err());
        assert!(x(&[2, 3]).matmul_t(&x(&[3, 2])).is_err());
        assert!(x(&[2, 3]).t_matmul(&x(&[3, 2])).is_err());
        assert!(x(&[2, 3]).matmul(&x(&[3, 2, 2])).is_err());
    }

    #[test]
    fn no_rows_give_no_rows_and_a_zero_gradient() {
        let x = Tensor::new(vec![], [0, 3]).unwrap();
        let w = Tensor::new(vec![1.0; 6], [2, 3]).unwrap();
        let y = x.matmul_t(&w).unwrap();
        assert_eq!(y.shape()[..], [0, 2]);
        assert_eq!(y.t_matmul(&x).unwrap().values().unwrap(), [0.0; 6]);
    }
}
