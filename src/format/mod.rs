//! Model files on disk: read as [`crate::quant::Weight`]s over a mapping, and written whole or not at all.

pub mod gguf;
