//! y = factor · x.

use crate::backend::cpu::for_rows;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

#[derive(Debug)]
struct Scale {
    factor: f32,
}

impl Tensor {
    pub fn scale(&self, factor: f32) -> Result<Tensor> {
        apply(Scale { factor }, &[self])
    }
}

impl Op for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        Ok(x[0].shape().clone())
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let values = x[0].values()?;
        let len = x[0].shape().last();
        for_rows(y, len, |row, y| {
            for (y, x) in y.iter_mut().zip(&values[row * len..]) {
                *y = self.factor * x;
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
        _wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(dy.scale(self.factor)?)])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{check, values};

    #[test]
    fn a_multiple_and_its_gradient_follow_the_formula() {
        for shape in [[1, 1], [3, 7], [2, 33], [5, 257]] {
            check(
                &[values(shape)],
                |x| x[0].scale(-2.5),
                |x| x[0].iter().map(|x| -2.5 * x).collect(),
            );
        }
    }
}
