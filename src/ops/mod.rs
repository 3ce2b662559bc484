//! The differentiable operations, one file each: shape check, CPU reference, gradient.

mod add;
mod attention;
mod attention_grad;
mod attention_layout;
mod bias;
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
mod soft_cap;

#[cfg(test)]
mod check;

pub use attention::Attention;
pub use cross_entropy::IGNORED;
pub use gated::Activation;
pub use rope::Pairs;
