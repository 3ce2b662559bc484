//! Where layers run, and what a run will occupy, in bytes, before it starts: models and their backward are played through
//! without any values.

mod decoder;
mod placement;
mod plan;
mod tape;

pub use placement::{Placement, Residence};
pub use plan::{Machine, Measured, MemoryPlan, Work};
