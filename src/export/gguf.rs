//! llama.cpp's LoRA adapter: the keys that its own converter writes, and `<tensor of the base>.lora_a`, `.lora_b`.
//!
//! Its scale is `adapter.lora.alpha` / rank with one alpha for all tensors, so other rules are folded: rsLoRA into alpha,
//! and what a layer has of its own into its B. Source: `convert_lora_to_gguf.py`, `llama-adapter.cpp`.

use std::collections::BTreeMap;
use std::path::Path;

use super::Export;
use super::peft::weight;
use crate::error;
use crate::error::Result;
use crate::format::adapter::gguf::{ADAPTER_KIND, ALPHA, ARCHITECTURE, KIND};
use crate::format::adapter::transposed;
use crate::format::gguf::{self, Metadata, Value};
use crate::format::names;
use crate::lora::{LayerKind, LoraConfig, Matrix, Pair, most_common};

/// `general.file_type` of a file whose tensors are all F32, and the version of GGML's quantised types.
const ALL_F32: u32 = 0;
const QUANTIZATION_VERSION: u32 = 2;

/// Writes the pairs, rows in GGUF's order, in f32. Not for DoRA, which such a file cannot hold.
pub fn write(path: &Path, export: &Export, pairs: BTreeMap<String, Pair>) -> Result<()> {
    let architecture = export.base.architecture;
    let config = export.adapter.config();
    let alphas = pairs.keys().map(|path| alpha(config, path));
    let common = most_common(alphas).unwrap_or(config.alpha);
    let mut tensors = Vec::new();
    for (layer, Pair { a, b, .. }) in pairs {
        let Some(name) = names::to_gguf(architecture, &format!("{layer}.weight")) else {
            return Err(error!(
                BadAdapter,
                "{layer} has no name in GGUF files of the architecture {architecture}"
            ));
        };
        // llama.cpp looks the embedding's rows of A up by token.
        let a = match LayerKind::of(&layer) {
            LayerKind::Linear => weight(a)?,
            LayerKind::Embedding => weight(transposed(&a))?,
        };
        let b = weight(scaled(b, alpha(config, &layer) / common))?;
        tensors.push((format!("{name}.lora_a"), a));
        tensors.push((format!("{name}.lora_b"), b));
    }
    gguf::write(path, &metadata(export, common), &tensors)
}

/// The alpha that gives the layer at `path` its scale by the rule alpha / rank.
fn alpha(config: &LoraConfig, path: &str) -> f32 {
    let alpha = config.alpha_of(path);
    match config.rslora {
        // alpha / √rank = (alpha · √rank) / rank
        true => (f64::from(alpha) * (config.rank_of(path) as f64).sqrt()) as f32,
        false => alpha,
    }
}

fn scaled(mut matrix: Matrix, factor: f32) -> Matrix {
    matrix.values.iter_mut().for_each(|value| *value *= factor);
    matrix
}

fn metadata(export: &Export, alpha: f32) -> Metadata {
    let name = export.model.short_name();
    let string = |text: &str| Value::String(text.to_owned());
    let mut metadata = Metadata::new();
    metadata.set(ARCHITECTURE, string(export.base.architecture));
    metadata.set(KIND.0, string(KIND.1));
    metadata.set(ADAPTER_KIND.0, string(ADAPTER_KIND.1));
    metadata.set(ALPHA, Value::F32(alpha));
    metadata.set("general.name", Value::String(format!("{name} LoRA")));
    metadata.set("general.base_model.count", Value::U32(1));
    metadata.set("general.base_model.0.name", string(name));
    metadata.set("general.file_type", Value::U32(ALL_F32));
    metadata.set(
        "general.quantization_version",
        Value::U32(QUANTIZATION_VERSION),
    );
    metadata
}
