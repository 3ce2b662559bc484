//! y = c + a·bᵀ in one pass over c: what a low-rank adapter adds to the output of its layer.

use crate::backend::cpu::product::narrow::{NARROW, few_terms, transposed};
use crate::backend::cpu::product::{Dense, Kernel, Precision, Side, product};
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

#[derive(Debug)]
struct AddMatMul;

impl Tensor {
    /// self + `a`·`b`ᵀ: self [.., n], `a` [.., k], `b` [n, k].
    pub fn add_matmul_t(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        apply(AddMatMul, &[self, a, b])
    }
}

impl Op for AddMatMul {
    fn name(&self) -> &'static str {
        "add_matmul"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let [c, a, b] = [x[0].shape(), x[1].shape(), x[2].shape()];
        if c.rows() != a.rows() || b[..] != [c.last(), a.last()] {
            bail!(Internal, "add_matmul: {c} + {a} by {b} transposed");
        }
        Ok(c.clone())
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let [c, a, b] = [x[0].values()?, x[1].values()?, x[2].values()?];
        let (m, k) = (x[1].shape().rows(), x[1].shape().last());
        if m == 0 || k == 0 || b.is_empty() {
            y.copy_from_slice(c);
            return Ok(None);
        }
        if k <= NARROW {
            few_terms(k, a, &transposed(b, k), Some(c), y);
            return Ok(None);
        }
        y.copy_from_slice(c);
        let b = Dense {
            values: b,
            columns: k,
        };
        product(
            Kernel::of(Precision::F32)?,
            Side::Transposed,
            m,
            a,
            &b,
            true,
            y,
        )?;
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::inputs(&[1, 2])
    }

    /// dc = dy,  da = dy·b,  db = dyᵀ·a.
    fn vjp(
        &self,
        x: &[Tensor],
        wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![
            wanted[0].then(|| dy.clone()),
            wanted[1].then(|| dy.matmul(&x[2])).transpose()?,
            wanted[2].then(|| dy.t_matmul(&x[1])).transpose()?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{check, random, values};

    #[test]
    fn sums_with_narrow_and_wide_products_follow_the_formula() {
        for (m, n, k) in [(1, 1, 1), (7, 257, 8), (33, 70, 3), (5, 9, 40)] {
            check(
                &[values([m, n]), values([m, k]), values([n, k])],
                |x| x[0].add_matmul_t(&x[1], &x[2]),
                |x| {
                    let at = |index: usize| {
                        let (a, b) = (&x[1][index / n * k..], &x[2][index % n * k..]);
                        a.iter().zip(b).take(k).map(|(a, b)| a * b).sum::<f64>()
                    };
                    let sums = x[0].iter().enumerate().map(|(index, c)| c + at(index));
                    sums.collect()
                },
            );
        }
    }

    #[test]
    fn shapes_that_do_not_belong_together_are_refused() {
        let sum = |c: [usize; 2], a: [usize; 2], b: [usize; 2]| {
            random(c).add_matmul_t(&random(a), &random(b))
        };
        assert!(sum([2, 3], [2, 4], [3, 4]).is_ok());
        assert!(sum([2, 3], [1, 4], [3, 4]).is_err());
        assert!(sum([2, 3], [2, 4], [4, 3]).is_err());
        assert!(sum([2, 3], [2, 4], [2, 4]).is_err());
        assert_eq!(sum([0, 3], [0, 4], [3, 4]).unwrap().shape()[..], [0, 3]);
    }
}
