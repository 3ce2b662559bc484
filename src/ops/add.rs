//! y = a + scale · b, element by element.

use crate::backend::cpu::for_rows;
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

#[derive(Debug)]
struct Add {
    scale: f32,
}

impl Tensor {
    /// self + `other`; the shapes are equal.
    pub fn add(&self, other: &Tensor) -> Result<Tensor> {
        self.add_scaled(other, 1.0)
    }

    /// self + `scale`·`other`; the shapes are equal.
    pub fn add_scaled(&self, other: &Tensor, scale: f32) -> Result<Tensor> {
        apply(Add { scale }, &[self, other])
    }
}

impl Op for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        if x[0].shape() != x[1].shape() {
            bail!(Internal, "add: {} + {}", x[0].shape(), x[1].shape());
        }
        Ok(x[0].shape().clone())
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (a, b) = (x[0].values()?, x[1].values()?);
        let len = x[0].shape().last();
        for_rows(y, len, |row, y| {
            let at = row * len;
            for ((y, a), b) in y.iter_mut().zip(&a[at..]).zip(&b[at..]) {
                *y = a + self.scale * b;
            }
        });
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::NOTHING
    }

    fn vjp(
        &self,
        _x: &[Tensor],
        wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let db = match wanted[1] {
            true if self.scale == 1.0 => Some(dy.clone()),
            true => Some(dy.scale(self.scale)?),
            false => None,
        };
        Ok(vec![wanted[0].then(|| dy.clone()), db])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{check, values};

    #[test]
    fn sums_and_their_gradients_follow_the_formula() {
        for shape in [[1, 1], [3, 7], [2, 33], [5, 257]] {
            for scale in [1.0, -0.75] {
                check(
                    &[values(shape), values(shape)],
                    |x| x[0].add_scaled(&x[1], scale),
                    |x| {
                        let pairs = x[0].iter().zip(&x[1]);
                        pairs.map(|(a, b)| a + f64::from(scale) * b).collect()
                    },
                );
            }
        }
    }

    #[test]
    fn different_shapes_are_refused() {
        let (a, b) = (
            Tensor::new(vec![0.0; 6], [2, 3]),
            Tensor::new(vec![0.0; 6], [3, 2]),
        );
        assert!(a.unwrap().add(&b.unwrap()).is_err());
    }
}
