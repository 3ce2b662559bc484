//! The differentiable operations, one file each: shape check, CPU reference, gradient.

mod add;
mod add_matmul;
mod attention;
mod attention_grad;
mod attention_layout;
mod attention_scores;
mod bias;
mod columns;
mod cross_entropy;
mod dropout;
mod embedding;
mod gated;
mod linear;
mod linear_cross_entropy;
mod matmul;
mod narrow;
mod rms_norm;
mod rope;
mod scale;
mod scale_columns;
mod soft_cap;

#[cfg(test)]
pub(crate) mod check;

pub use attention::Attention;
pub(crate) use attention_layout::BLOCK;
pub use cross_entropy::IGNORED;
pub use gated::Activation;
pub(crate) use linear_cross_entropy::slice_rows;
pub use rope::{Pairs, turns};
