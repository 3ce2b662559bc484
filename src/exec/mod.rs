//! What a run will occupy, in bytes, before it starts. Models and their backward are played through without any values.

mod decoder;
mod plan;
mod tape;

pub use plan::{Machine, Measured, MemoryPlan, Work};
