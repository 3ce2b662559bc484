//! What a writer must know of a tensor before its bytes are there.

use crate::quant::{Format, Weight};
use crate::shape::Shape;

/// Name, shape and format of a tensor to be written.
#[derive(Debug, Clone)]
pub struct Entry {
    pub name: String,
    pub shape: Shape,
    pub format: Format,
}

impl Entry {
    pub(super) fn of((name, weight): &(String, Weight)) -> Entry {
        Entry {
            name: name.clone(),
            shape: weight.shape().clone(),
            format: weight.format(),
        }
    }

    /// How many bytes it takes.
    pub fn bytes(&self) -> usize {
        self.shape.elements() / self.format.block_elements() * self.format.block_bytes()
    }
}
