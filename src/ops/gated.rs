//! y = act(gate) · up: the gated activation of a feed-forward layer. Shazeer 2020, arXiv:2002.05202.

use crate::backend::Buffer;
use crate::backend::cpu::{exp, for_rows, for_rows_of_two, vectorised};
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

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
        const TWO_ROOT: f32 = 1.595_769; // 2·√(2/π)
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

vectorised! {
    fn forward(activation: Activation, gate: &[f32], up: &[f32], y: &mut [f32]) {
        for ((y, gate), up) in y.iter_mut().zip(gate).zip(up) {
            *y = activation.value_and_slope(*gate).0 * up;
        }
    }
}

vectorised! {
    fn backward(
        activation: Activation,
        gate: &[f32],
        up: &[f32],
        dy: &[f32],
        dgate: &mut [f32],
        dup: &mut [f32],
    ) {
        let inputs = gate.iter().zip(up).zip(dy);
        for ((dgate, dup), ((gate, up), dy)) in dgate.iter_mut().zip(dup).zip(inputs) {
            let (value, slope) = activation.value_and_slope(*gate);
            *dgate = dy * up * slope;
            *dup = dy * value;
        }
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
            forward(self.activation, &gate[at..], &up[at..], y);
        });
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::inputs(&[0, 1])
    }

    fn again(&self) -> bool {
        true
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
        let (mut dgate, mut dup) = (Buffer::stale(gate.len()), Buffer::stale(gate.len()));
        for_rows_of_two(&mut dgate, &mut dup, len, |row, dgate, dup| {
            let at = row * len;
            let (gate, up, dy) = (&gate[at..], &up[at..], &dy[at..]);
            backward(self.activation, gate, up, dy, dgate, dup);
        });
        let shaped = |values: Buffer| Tensor::of(values, x[0].shape().clone());
        Ok(vec![
            wanted[0].then(|| shaped(dgate)).transpose()?,
            wanted[1].then(|| shaped(dup)).transpose()?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{check, scaled, values};

    #[test]
    fn both_activations_and_their_gradients_follow_the_formula() {
        for (shape, scale) in [
            ([1, 1], 1.0),
            ([3, 7], 3.0),
            ([2, 33], 6.0),
            ([5, 257], 12.0),
        ] {
            for activation in [Activation::Silu, Activation::GeluTanh] {
                let act = |x: f64| match activation {
                    Activation::Silu => x / (1.0 + (-x).exp()),
                    Activation::GeluTanh => {
                        let root = (2.0 / std::f64::consts::PI).sqrt();
                        0.5 * x * (1.0 + (root * (x + 0.044715 * x.powi(3))).tanh())
                    }
                };
                check(
                    &[scaled(shape, scale), values(shape)],
                    |x| x[0].gated(&x[1], activation),
                    |x| x[0].iter().zip(&x[1]).map(|(g, u)| act(*g) * u).collect(),
                );
            }
        }
    }

    #[test]
    fn far_gates_are_shut_or_open() {
        let gate = Tensor::new(vec![-1e6, -200.0, 200.0, 1e6], [4]).unwrap();
        let up = Tensor::new(vec![1.0; 4], [4]).unwrap();
        for activation in [Activation::Silu, Activation::GeluTanh] {
            let y = gate.gated(&up, activation).unwrap();
            assert_eq!(y.values().unwrap(), [0.0, 0.0, 200.0, 1e6]);
            assert!(
                gate.gated(&up.reshape([2, 2]).unwrap(), activation)
                    .is_err()
            );
        }
    }
}
