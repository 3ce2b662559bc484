//! Model files on disk: read as weights over a mapping, and written whole or not at all.

pub mod adapter;
pub mod atomic;
mod catalog;
mod checkpoint;
mod config;
pub mod digest;
mod entry;
pub mod fault;
pub mod gguf;
mod leftovers;
mod mapping;
pub mod names;
pub mod safetensors;
mod staging;
pub mod tokenizer;

pub use catalog::{Catalog, Tensor};
pub use checkpoint::Checkpoint;
pub use config::{Config, Key, key};
pub use entry::Entry;
pub use leftovers::clean;
pub use staging::Staging;
