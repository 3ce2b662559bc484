//! A base in the types that we pack and PyPI `gguf` only unpacks, and what `merge` makes of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use amv_train::backend::Bytes;
use amv_train::error::{Error, Result};
use amv_train::format::gguf::{self, GgufFile};
use amv_train::format::{atomic, safetensors};
use amv_train::quant::{Format, Weight};
use serde_json::json;

use super::{Model, log_probabilities, merge, write_quantised};

/// The built-in model with its matrices in every type that we pack and PyPI `gguf` only unpacks, and what `merge` makes
/// of it in these types: `merged.gguf`, its values in `merged.safetensors`, what it computes in `merged.json`.
pub fn write_packed(target: &Path) -> Result<()> {
    const FORMATS: [Format; 7] = [
        Format::Q6K,
        Format::Q5K,
        Format::Q4K,
        Format::Q3K,
        Format::Q2K,
        Format::IQ4NL,
        Format::IQ4XS,
    ];
    fs::create_dir_all(target).map_err(|cause| Error::file("make", target, &cause))?;
    let builtin = GgufFile::open(Path::new("builtin/tiny-transformer.gguf"))?;
    let mut formats = FORMATS.into_iter().cycle();
    let mut tensors = Vec::new();
    for name in builtin.tensor_names() {
        let mut weight = builtin.weight(name)?;
        if let (2.., Some(format)) = (weight.shape().len(), formats.next()) {
            let values = weight.to_f32()?;
            let blocks = values.len() / format.block_elements();
            let mut packed = vec![0; blocks * format.block_bytes()];
            format.pack(&values, &mut packed)?;
            weight = Weight::new(format, weight.shape().clone(), Bytes::copy_of(&packed))?;
        }
        tensors.push((name.to_owned(), weight));
    }
    let base = target.join("model.gguf");
    gguf::write(&base, builtin.metadata(), &tensors)?;
    let ids = write_quantised(&base, "packed", target)?;

    let merged = target.join("merged.gguf");
    merge(&base, &target.join("gguf"), &merged, "own")?;
    let file = GgufFile::open(&merged)?;
    let mut values = Vec::new();
    for name in file.tensor_names() {
        let weight = file.weight(name)?;
        let bytes = Bytes::from_f32(weight.to_f32()?);
        let unpacked = Weight::new(Format::F32, weight.shape().clone(), bytes)?;
        values.push((name.to_owned(), unpacked));
    }
    safetensors::write(
        &target.join("merged.safetensors"),
        &BTreeMap::new(),
        &values,
    )?;
    let computed = json!({
        "input_ids": [ids],
        "targets": log_probabilities(&Model::open(&merged)?.plain, &ids)?,
    });
    atomic::write_bytes(&target.join("merged.json"), computed.to_string().as_bytes())
}
