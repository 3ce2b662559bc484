//! GGUF: one file with metadata, tensor descriptions and aligned tensor data.
//!
//! Source: ggml-org/ggml, `docs/gguf.md`, versions 2 and 3.

mod value;

pub use value::{Array, Metadata, Value};
