//! y = cap · tanh(x / cap): keeps values inside ±cap (Gemma 2, arXiv:2408.00118, section 2).

use crate::backend::cpu::{for_rows, tanh};
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

#[derive(Debug)]
struct SoftCap {
    cap: f32,
}

impl Tensor {
    pub fn soft_cap(&self, cap: f32) -> Result<Tensor> {
        apply(SoftCap { cap }, &[self])
    }
}

impl Op for SoftCap {
    fn name(&self) -> &'static str {
        "soft_cap"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        Ok(x[0].shape().clone())
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (values, len) = (x[0].values()?, x[0].shape().last());
        for_rows(y, len, |row, y| {
            for (y, x) in y.iter_mut().zip(&values[row * len..]) {
                *y = self.cap * tanh(x / self.cap);
            }
        });
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::NOTHING.and_output()
    }

    /// dx = dy · (1 − (y / cap)²)
    fn vjp(
        &self,
        x: &[Tensor],
        _wanted: &[bool],
        y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let slope = |y: &f32| 1.0 - (y / self.cap).powi(2);
        let gradients = dy.values()?.iter().zip(y.values()?);
        let dx: Vec<f32> = gradients.map(|(dy, y)| dy * slope(y)).collect();
        Ok(vec![Some(Tensor::new(dx, x[0].shape().clone())?)])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{check, scaled};

    #[test]
    fn a_soft_cap_and_its_gradient_follow_the_formula() {
        for (shape, scale) in [
            ([1, 1], 1.0),
            ([3, 7], 0.1),
            ([2, 33], 5.0),
            ([5, 257], 20.0),
        ] {
            check(
                &[scaled(shape, scale)],
                |x| x[0].soft_cap(2.5),
                |x| x[0].iter().map(|x| 2.5 * (x / 2.5).tanh()).collect(),
            );
        }
    }
}
