//! Answers about the machine, the formats and a model, as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::backend::{self, memory};
use crate::error::Result;
use crate::format::Checkpoint;
use crate::models::{self, FAMILIES};
use crate::quant::Format;
use crate::run::Package;
use crate::train::BUILT_IN;

/// What `model` is and whether it can be trained: `trainable`, and the `reason` when not.
///
/// Errors: no such file, or one that cannot be read as a model at all.
pub fn inspect(model: &str, package: &Package) -> Result<Value> {
    let checkpoint = Checkpoint::open(&package.model_path(model))?;
    let mut types: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    let (mut parameters, mut bytes, mut unreadable) = (0_u64, 0_u64, Vec::new());
    for tensor in checkpoint.catalog().tensors() {
        let elements = tensor
            .shape
            .iter()
            .map(|axis| *axis as u64)
            .product::<u64>();
        let size = tensor.bytes().unwrap_or(0) as u64;
        let of_type = types.entry(&tensor.type_name).or_default();
        *of_type = (of_type.0 + 1, of_type.1 + elements);
        (parameters, bytes) = (parameters + elements, bytes + size);
        if tensor.format.is_none() {
            unreadable.push(format!("{} is {}", tensor.name, tensor.type_name));
        }
    }
    let types = types.into_iter().map(|(name, (tensors, parameters))| {
        let counts = json!({ "tensors": tensors, "parameters": parameters });
        (name.to_owned(), counts)
    });
    let mut report = json!({
        "model": model,
        "path": checkpoint.path().display().to_string(),
        "format": checkpoint.format_name(),
        "architecture": checkpoint.config().architecture(),
        "parameters": parameters,
        "bytes": bytes,
        "types": types.collect::<serde_json::Map<_, _>>(),
    });
    let reason = match models::read(checkpoint.config()) {
        Ok((family, spec)) => {
            report["family"] = family.name.into();
            report["layers"] = spec.layers.len().into();
            report["width"] = spec.width.into();
            report["heads"] = spec.heads.into();
            report["kvHeads"] = spec.kv_heads.into();
            report["context"] = spec.context.into();
            unreadable
                .first()
                .map(|tensor| format!("{tensor}, a type that cannot be read"))
        }
        Err(error) => Some(error.message),
    };
    report["trainable"] = reason.is_none().into();
    if let Some(reason) = reason {
        report["reason"] = reason.into();
    }
    Ok(report)
}

/// Architectures and file types that can be trained, and the built-in models.
pub fn models() -> Value {
    let families = FAMILIES.iter().map(|family| {
        json!({
            "name": family.name,
            "modelTypes": family.model_types,
            "knownAs": family.known_as,
        })
    });
    json!({
        "architectures": families.collect::<Vec<_>>(),
        "formats": {
            "gguf": Format::ALL.iter().map(|format| format.name()).collect::<Vec<_>>(),
            "safetensors": ["F32", "F16", "BF16"],
        },
        "builtIn": [{ "name": BUILT_IN, "architecture": "llama" }],
    })
}

/// What can compute, and for what cannot, why.
pub fn devices() -> Value {
    let (memory, available) = memory::machine_bytes();
    json!([
        {
            "backend": "cpu",
            "name": backend::cpu::name(),
            "available": true,
            "threads": backend::cpu::cores(),
            "features": backend::cpu::features(),
            "memoryBytes": memory,
            "freeMemoryBytes": available,
        },
        { "backend": "vulkan", "available": false, "reason": "Vulkan is not in this version" },
        { "backend": "opencl", "available": false, "reason": "OpenCL is not in this version" },
    ])
}

/// Version, machine and devices: what a bug report needs.
pub fn info() -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "platform": format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        "residentBytes": memory::resident_bytes(),
        "peakBytes": memory::peak_bytes(),
        "devices": devices(),
    })
}
