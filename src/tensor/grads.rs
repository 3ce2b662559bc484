//! Gradients of the leaves, added up over the micro-batches of a step.

use std::collections::HashMap;
use std::sync::Arc;

use crate::backend::Buffer;
use crate::backend::cpu::for_rows;
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
        let row = self.shape().last();
        if let Some(values) = Arc::get_mut(&mut self.0).and_then(|inner| inner.bytes.f32_mut()) {
            let add = other.values()?;
            for_rows(values, row, |index, values| {
                for (value, add) in values.iter_mut().zip(&add[index * row..]) {
                    *value += add;
                }
            });
            return Ok(self);
        }
        let (a, b) = (self.values()?, other.values()?);
        let mut sum = Buffer::stale(a.len());
        for_rows(&mut sum, row, |index, sum| {
            let at = index * row;
            for ((sum, a), b) in sum.iter_mut().zip(&a[at..]).zip(&b[at..]) {
                *sum = a + b;
            }
        });
        Tensor::of(sum, self.shape().clone())
    }
}
