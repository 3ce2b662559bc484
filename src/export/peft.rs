//! PEFT's files: `adapter_model.safetensors` and `adapter_config.json`, as every PEFT from 0.6 on loads them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::number;
use crate::backend::Bytes;
use crate::error::Result;
use crate::format::adapter::{Half, peft::tensor_name};
use crate::format::safetensors;
use crate::lora::{LoraConfig, Matrix, Pair};
use crate::quant::{Format, Weight};

/// Writes the pairs, rows in the Hugging Face order, in f32: A [rank, in], B [out, rank].
pub fn write_tensors(path: &Path, pairs: &BTreeMap<String, Pair>) -> Result<()> {
    let mut tensors = Vec::new();
    for (layer, Pair { a, b }) in pairs {
        tensors.push((tensor_name(layer, Half::A), weight(a)?));
        tensors.push((tensor_name(layer, Half::B), weight(b)?));
    }
    // transformers asks model files for it, and PEFT writes it.
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::write(path, &metadata, &tensors)
}

/// PEFT's own fields only, and none that PEFT 0.9 does not know: an unknown one is a `TypeError` in older releases.
pub fn config(config: &LoraConfig, target_modules: &[String], base_model: &str) -> Value {
    json!({
        "alpha_pattern": {},
        "auto_mapping": null,
        "base_model_name_or_path": base_model,
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "init_lora_weights": true,
        "layers_pattern": null,
        "layers_to_transform": null,
        "lora_alpha": number(config.alpha),
        "lora_dropout": number(config.dropout),
        "modules_to_save": null,
        "peft_type": "LORA",
        "r": config.rank,
        "rank_pattern": {},
        "revision": null,
        "target_modules": target_modules,
        "task_type": "CAUSAL_LM",
        "use_dora": false,
        "use_rslora": false,
    })
}

/// A matrix as an f32 tensor of a file.
pub fn weight(matrix: &Matrix) -> Result<Weight> {
    let bytes = Bytes::from_f32(matrix.values.clone());
    Weight::new(Format::F32, [matrix.rows, matrix.columns].into(), bytes)
}
