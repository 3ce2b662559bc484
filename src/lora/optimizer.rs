//! AdamW and SGD as PyTorch defines them, on one parameter at a time.

/// How a gradient changes a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Optimizer {
    /// Loshchilov and Hutter 2019, arXiv:1711.05101, algorithm 2, in the form of `torch.optim.AdamW`.
    AdamW {
        beta1: f64,
        beta2: f64,
        eps: f64,
        weight_decay: f64,
    },
    /// `torch.optim.SGD` without momentum: p −= lr·(g + weight_decay·p).
    Sgd { weight_decay: f64 },
}

impl Optimizer {
    /// AdamW with the field's usual constants: β 0.9 and 0.999, eps 1e-8.
    pub fn adamw(weight_decay: f64) -> Optimizer {
        Optimizer::AdamW {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay,
        }
    }

    /// Updates `values` by the gradient `g`·`scale`. `update` counts updates from 1; the moments start at zero.
    #[inline]
    pub(super) fn update(
        self,
        (lr, scale, update): (f64, f64, u64),
        values: &mut [f32],
        gradient: &[f32],
        moments: &mut Moments,
    ) {
        match self {
            Optimizer::Sgd { weight_decay } => {
                for (p, g) in values.iter_mut().zip(gradient) {
                    let g = f64::from(*g) * scale + weight_decay * f64::from(*p);
                    *p = (f64::from(*p) - lr * g) as f32;
                }
            }
            Optimizer::AdamW {
                beta1,
                beta2,
                eps,
                weight_decay,
            } => {
                moments.first.resize(values.len(), 0.0);
                moments.second.resize(values.len(), 0.0);
                let correction1 = 1.0 - beta1.powi(update.min(i32::MAX as u64) as i32);
                let correction2 = 1.0 - beta2.powi(update.min(i32::MAX as u64) as i32);
                let moments = moments.first.iter_mut().zip(&mut moments.second);
                for ((p, g), (m, v)) in values.iter_mut().zip(gradient).zip(moments) {
                    let g = f64::from(*g) * scale;
                    let first = beta1 * f64::from(*m) + (1.0 - beta1) * g;
                    let second = beta2 * f64::from(*v) + (1.0 - beta2) * g * g;
                    let denominator = (second / correction2).sqrt() + eps;
                    let decayed = f64::from(*p) * (1.0 - lr * weight_decay);
                    *p = (decayed - lr * (first / correction1) / denominator) as f32;
                    (*m, *v) = (first as f32, second as f32);
                }
            }
        }
    }
}

/// Running means of the gradient and its square; empty until the first update, and for SGD.
#[derive(Default, Clone)]
pub(super) struct Moments {
    pub first: Vec<f32>,
    pub second: Vec<f32>,
}

/// What clipping and skipping need to know of all gradients before any parameter changes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GradStats {
    pub sum_of_squares: f64,
}

impl GradStats {
    /// The global norm.
    pub fn norm(self) -> f64 {
        self.sum_of_squares.sqrt()
    }

    /// False when any gradient is infinite or not a number.
    pub fn finite(self) -> bool {
        self.sum_of_squares.is_finite()
    }
}
