//! amv-train: LoRA fine-tuning where the data is.
//!
//! Modules are listed in the order data flows; a module may use only those above it (plus `error` and `shape`).
//! `docs/architecture.md` has the picture, `__test__/architecture.test.js` enforces the direction.

pub mod error;
pub mod shape;

pub mod backend;

pub mod quant;

pub mod tensor;

pub mod autograd;

pub mod ops;

pub mod lora;

pub mod nn;

pub mod format;

pub mod models;

pub mod generate;

pub mod exec;

pub mod data;

pub mod train;

pub mod export;

pub mod run;

pub mod node;
