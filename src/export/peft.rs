//! PEFT's files: `adapter_model.safetensors` and `adapter_config.json`, as every PEFT from 0.6 on loads them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::number;
use super::targets::TargetModules;
use crate::backend::Bytes;
use crate::error::Result;
use crate::format::safetensors;
use crate::lora::{LoraConfig, Matrix, Pair, Part, Patterns};
use crate::quant::{Format, Weight};

/// Writes the pairs, rows in the Hugging Face order, in f32: A [rank, in], B [out, rank], DoRA's magnitude [out].
pub fn write_tensors(path: &Path, pairs: BTreeMap<String, Pair>) -> Result<()> {
    let mut tensors = Vec::new();
    for (layer, Pair { a, b, magnitude }) in pairs {
        tensors.push((Part::A.peft_name(&layer), weight(a)?));
        tensors.push((Part::B.peft_name(&layer), weight(b)?));
        if let Some(lengths) = magnitude {
            let shape = [lengths.len()].into();
            let lengths = Weight::new(Format::F32, shape, Bytes::from_f32(lengths))?;
            tensors.push((Part::Magnitude.peft_name(&layer), lengths));
        }
    }
    // transformers asks model files for it, and PEFT writes it.
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::write(path, &metadata, &tensors)
}

/// The settings that PEFT's configuration and the sidecar share, under PEFT's names.
pub fn settings(config: &LoraConfig, targets: &TargetModules) -> Map<String, Value> {
    let fields = json!({
        "r": config.rank,
        "lora_alpha": number(config.alpha),
        "lora_dropout": number(config.dropout),
        "use_dora": config.dora,
        "use_rslora": config.rslora,
        "rank_pattern": pattern(&config.rank_pattern, |rank| (*rank).into()),
        "alpha_pattern": pattern(&config.alpha_pattern, |alpha| number(*alpha)),
        "target_modules": targets.names,
        "layers_to_transform": targets.layers,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn pattern<T>(patterns: &Patterns<T>, json: impl Fn(&T) -> Value) -> Map<String, Value> {
    let values = patterns
        .iter()
        .map(|(key, value)| (key.to_owned(), json(value)));
    values.collect()
}

/// PEFT's own fields only, and none that PEFT 0.9 does not know: an unknown one is a `TypeError` in older releases.
pub fn config(config: &LoraConfig, targets: &TargetModules, base_model: &str) -> Value {
    let mut fields = settings(config, targets);
    for (name, value) in [
        ("auto_mapping", Value::Null),
        ("base_model_name_or_path", base_model.into()),
        ("bias", "none".into()),
        ("fan_in_fan_out", false.into()),
        ("inference_mode", true.into()),
        ("init_lora_weights", true.into()),
        ("layers_pattern", Value::Null),
        ("modules_to_save", Value::Null),
        ("peft_type", "LORA".into()),
        ("revision", Value::Null),
        ("task_type", "CAUSAL_LM".into()),
    ] {
        fields.insert(name.to_owned(), value);
    }
    fields.sort_keys();
    fields.into()
}

/// A matrix as an f32 tensor of a file.
pub fn weight(matrix: Matrix) -> Result<Weight> {
    let shape = [matrix.rows, matrix.columns].into();
    Weight::new(Format::F32, shape, Bytes::from_f32(matrix.values))
}
