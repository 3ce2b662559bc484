//! Gradients of the leaves, added up over the micro-batches of a step.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Result;
use crate::tensor::{Tensor, TensorId};

/// What `autograd::backward` found for each leaf.
#[derive(Default)]
pub struct Grads(HashMap<TensorId, Tensor>);

impl Grads {
    pub fn get(&self, leaf: &Tensor) -> Option<&Tensor> {
        self.0.get(&leaf.id())
    }

    /// Takes the gradient of a leaf out, for leaves that live only inside a replay.
    pub fn take(&mut self, leaf: &Tensor) -> Option<Tensor> {
        self.0.remove(&leaf.id())
    }

    /// Adds `gradient` to what is known of the leaf `id`.
    pub fn add(&mut self, id: TensorId, gradient: Tensor) -> Result<()> {
        let sum = match self.0.remove(&id) {
            Some(known) => known.plus(&gradient)?,
            None => gradient,
        };
        self.0.insert(id, sum);
        Ok(())
    }
}

impl Tensor {
    /// The sum of two gradients, in place when nobody else holds the first.
    pub(crate) fn plus(mut self, other: &Tensor) -> Result<Tensor> {
        if let Some(values) = Arc::get_mut(&mut self.0).and_then(|inner| inner.bytes.f32_mut()) {
            for (value, add) in values.iter_mut().zip(other.values()?) {
                *value += add;
            }
            return Ok(self);
        }
        let sum = self.values()?.iter().zip(other.values()?);
        Tensor::new(sum.map(|(a, b)| a + b).collect(), self.shape().clone())
    }
}
