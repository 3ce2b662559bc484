//! llama.cpp's LoRA adapter: the keys that its own converter writes, and `<tensor of the base>.lora_a`, `.lora_b`.
//!
//! Its scale is `adapter.lora.alpha` / rank, the same as ours. Source: `convert_lora_to_gguf.py`, `llama-adapter.cpp`.

use std::collections::BTreeMap;
use std::path::Path;

use super::Export;
use super::peft::weight;
use crate::error;
use crate::error::Result;
use crate::format::adapter::gguf::{ADAPTER_KIND, ALPHA, ARCHITECTURE, KIND};
use crate::format::gguf::{self, Metadata, Value};
use crate::format::names;
use crate::lora::Pair;

/// `general.file_type` of a file whose tensors are all F32, and the version of GGML's quantised types.
const ALL_F32: u32 = 0;
const QUANTIZATION_VERSION: u32 = 2;

/// Writes the pairs, rows in GGUF's order, in f32.
pub fn write(path: &Path, export: &Export, pairs: &BTreeMap<String, Pair>) -> Result<()> {
    let architecture = export.base.architecture;
    let mut tensors = Vec::new();
    for (layer, Pair { a, b }) in pairs {
        let Some(name) = names::to_gguf(architecture, &format!("{layer}.weight")) else {
            return Err(error!(
                BadAdapter,
                "{layer} has no name in GGUF files of the architecture {architecture}"
            ));
        };
        tensors.push((format!("{name}.lora_a"), weight(a)?));
        tensors.push((format!("{name}.lora_b"), weight(b)?));
    }
    gguf::write(path, &metadata(export), &tensors)
}

fn metadata(export: &Export) -> Metadata {
    let name = export.model.short_name();
    let string = |text: &str| Value::String(text.to_owned());
    let mut metadata = Metadata::new();
    metadata.set(ARCHITECTURE, string(export.base.architecture));
    metadata.set(KIND.0, string(KIND.1));
    metadata.set(ADAPTER_KIND.0, string(ADAPTER_KIND.1));
    metadata.set(ALPHA, Value::F32(export.adapter.config().alpha));
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
