//! Layers: what holds weights and calls operations. The loader decides where weights come from and which layers learn.

mod attention;
mod embedding;
mod linear;
mod loader;
mod mlp;
mod norm;
mod rope;
mod span;

pub use attention::{AttentionSpec, SelfAttention};
pub use embedding::Embedding;
pub use linear::Linear;
pub use loader::{Layout, Loader, Source};
pub use mlp::{Mlp, MlpSpec};
pub use norm::{NormSpec, RmsNorm};
pub use rope::{Rope, RopeSpec, Scaling};
pub use span::{AsLoaded, Placer, Span};
