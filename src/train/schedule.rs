//! The learning rate of every step: a linear warm-up to the full rate, then constant, linear or cosine to zero.
//! Step s counts from 1. Warm-up: lr·min(1, s/N). After it, with p = (s − 1 − N)/(T − N): linear 1 − p, cosine
//! (1 + cos πp)/2, as the schedulers of transformers compute them.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    Constant,
    Linear,
    Cosine,
}

#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    pub lr: f64,
    pub shape: Shape,
    pub warmup: usize,
    pub total: usize,
}

impl Schedule {
    /// The learning rate of step `step`, from 1.
    pub fn lr(&self, step: usize) -> f64 {
        if step <= self.warmup {
            return self.lr * step as f64 / self.warmup as f64;
        }
        let rest = self.total.saturating_sub(self.warmup).max(1);
        let progress = ((step - 1 - self.warmup) as f64 / rest as f64).min(1.0);
        self.lr
            * match self.shape {
                Shape::Constant => 1.0,
                Shape::Linear => 1.0 - progress,
                Shape::Cosine => 0.5 * (1.0 + (PI * progress).cos()),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_rises_in_equal_steps_and_the_rest_falls() {
        let schedule = Schedule {
            lr: 2.0,
            shape: Shape::Linear,
            warmup: 2,
            total: 6,
        };
        let rates: Vec<f64> = (1..=6).map(|step| schedule.lr(step)).collect();
        assert_eq!(rates, [1.0, 2.0, 2.0, 1.5, 1.0, 0.5]);
        let cosine = Schedule {
            shape: Shape::Cosine,
            warmup: 0,
            ..schedule
        };
        assert_eq!(cosine.lr(1), 2.0);
        assert!((cosine.lr(4) - 1.0).abs() < 1e-12);
        let constant = Schedule {
            shape: Shape::Constant,
            warmup: 0,
            ..schedule
        };
        assert_eq!(constant.lr(6), 2.0);
    }
}
