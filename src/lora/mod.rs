//! Low-rank adapters: W + scale·B·A. Hu et al. 2021, arXiv:2106.09685. The adapter owns everything trainable.

mod adapter;
mod optimizer;
mod targets;

pub use adapter::{Adapter, LoraConfig, Matrix, Pair};
pub use optimizer::{GradStats, Optimizer};
pub use targets::Targets;
