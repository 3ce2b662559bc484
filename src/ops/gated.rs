//! y = act(gate) · up: the gated activation of a feed-forward layer. Shazeer 2020, arXiv:2002.05202.

use crate::backend::cpu::{exp, for_rows};
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Tensor, apply};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x · sigmoid(x)
    Silu,
    /// x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³))), the tanh form of GELU (Hendrycks and Gimpel 2016, arXiv:1606.08415).
    GeluTanh,
}

impl Activation {
    /// The value at `x` and the slope there.
    ///
    /// Both are x·s(u) with the sigmoid s, whose slope is s·(1 − s); for GELU because (1 + tanh(v))/2 = s(2v).
    #[inline(always)]
    fn value_and_slope(self, x: f32) -> (f32, f32) {
        const TWO_ROOT: f32 = 1.595_769_1; // 2·√(2/π)
        const CUBE: f32 = 0.044_715;
        let (u, du) = match self {
            Activation::Silu => (x, 1.0),
            Activation::GeluTanh => (
                TWO_ROOT * (x + CUBE * x * x * x),
                TWO_ROOT * (1.0 + 3.0 * CUBE * x * x),
            ),
        };
        let s = 1.0 / (1.0 + exp(-u));
        (x * s, s * (1.0 + x * (1.0 - s) * du))
    }
}

#[derive(Debug)]
struct Gated {
    activation: Activation,
}

impl Tensor {
    /// activation(self) · `up`; both have the same shape.
    pub fn gated(&self, up: &Tensor, activation: Activation) -> Result<Tensor> {
        apply(Gated { activation }, &[self, up])
    }
}

impl Op for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        if x[0].shape() != x[1].shape() {
            bail!(
                Internal,
                "gated: gate {} and up {}",
                x[0].shape(),
                x[1].shape()
            );
        }
        Ok(x[0].shape().clone())
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (gate, up, len) = (x[0].values()?, x[1].values()?, x[0].shape().last());
        for_rows(y, len, |row, y| {
            let at = row * len;
            for ((y, gate), up) in y.iter_mut().zip(&gate[at..]).zip(&up[at..]) {
                *y = self.activation.value_and_slope(*gate).0 * up;
            }
        });
        Ok(None)
    }

    /// dgate = dy·up·act'(gate),  dup = dy·act(gate)
    fn vjp(
        &self,
        x: &[Tensor],
        wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let (gate, up, dy) = (x[0].values()?, x[1].values()?, dy.values()?);
        let len = x[0].shape().last();
        let gradient = |of_gate: bool| {
            let mut dx = vec![0.0; gate.len()];
            for_rows(&mut dx, len, |row, dx| {
                let at = row * len;
                for (i, dx) in dx.iter_mut().enumerate() {
                    let (value, slope) = self.activation.value_and_slope(gate[at + i]);
                    *dx = dy[at + i] * if of_gate { up[at + i] * slope } else { value };
                }
            });
            Tensor::new(dx, x[0].shape().clone())
        };
        Ok(vec![
            wanted[0].then(|| gradient(true)).transpose()?,
            wanted[1].then(|| gradient(false)).transpose()?,
        ])
    }
}
