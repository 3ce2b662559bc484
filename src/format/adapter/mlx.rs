//! Reads adapters of mlx-lm: `<layer>.lora_a` [in, rank] and `.lora_b` [rank, out], both the other way round than PEFT's, and
//! DoRA's lengths `.m` [out]. One scale for all layers multiplies their product; it is in `adapter_config.json`.
//! Source: ml-explore/mlx-lm, `tuner/lora.py`, `tuner/dora.py`, `tuner/utils.py`.

use std::path::Path;

use serde_json::Value;

use super::parts::{Parts, matrix, transposed};
use super::peft::CONFIG;
use super::{Base, RowOrder, SavedAdapter, refused};
use crate::backend::Bytes;
use crate::error::{Error, Result};
use crate::format::safetensors::Safetensors;
use crate::lora::{LoraConfig, Part, Patterns, Targets};
use crate::quant::{Format, Weight};

pub const TENSORS: &str = "adapters.safetensors";

/// Whether there are tensors, all with names of MLX.
pub fn wrote(tensors: &Safetensors) -> bool {
    let mut names = tensors.tensor_names().peekable();
    names.peek().is_some() && names.all(|name| part(name).is_some())
}

fn part(name: &str) -> Option<(&str, Part)> {
    let endings = [
        (".lora_a", Part::A),
        (".lora_b", Part::B),
        (".m", Part::Magnitude),
    ];
    let mut parts = endings.into_iter();
    parts.find_map(|(ending, part)| Some((name.strip_suffix(ending)?, part)))
}

/// Reads `tensors`, which are those of `file`, with the `adapter_config.json` beside it.
pub fn read(file: &Path, tensors: &Safetensors, base: &Base) -> Result<SavedAdapter> {
    let config = file.with_file_name(CONFIG);
    let (scale, dora) = settings(&config)?;
    let mut parts = Parts::default();
    for name in tensors.tensor_names() {
        let Some((path, part)) = part(name) else {
            return Err(refused(file, format!("{name} is no name of MLX")));
        };
        let weight = tensors.weight(name)?;
        let weight = match (part, weight.shape().len()) {
            (Part::Magnitude, _) => weight,
            (_, 2) => turned(&weight)?,
            _ => {
                let shape = weight.shape();
                return Err(refused(file, format!("{name} is {shape}, not a matrix")));
            }
        };
        parts.add(path.to_owned(), part, name, weight);
    }
    let pairs = parts.finish(file, base, RowOrder::HuggingFace)?;
    if let Some((path, pair)) = pairs.iter().find(|(_, p)| p.magnitude.is_some() != dora) {
        let problem = match pair.magnitude {
            None => format!("fine_tune_type is dora, but there is no {path}.m"),
            Some(_) => format!("fine_tune_type is not dora, but there is a {path}.m"),
        };
        return Err(refused(&config, problem));
    }
    let ranks = pairs.iter().map(|(path, pair)| (&**path, pair.rank()));
    let alphas = ranks
        .clone()
        .map(|(path, rank)| (path, scale * rank as f32));
    let (rank, rank_pattern) = Patterns::of_layers(ranks, 0)?;
    let (alpha, alpha_pattern) = Patterns::of_layers(alphas, 0.0)?;
    let config = LoraConfig {
        rank,
        alpha,
        rank_pattern,
        alpha_pattern,
        dora,
        targets: Targets::Names(pairs.keys().cloned().collect()),
        ..LoraConfig::default()
    };
    Ok(SavedAdapter { pairs, config })
}

/// The scale, and whether it is DoRA.
fn settings(path: &Path) -> Result<(f32, bool)> {
    let failed = |message: String| refused(path, message);
    let text = std::fs::read(path).map_err(|cause| Error::file("read", path, &cause))?;
    let value: Value = serde_json::from_slice(&text)
        .map_err(|cause| failed(format!("this is not JSON: {cause}")))?;
    let dora = match value["fine_tune_type"].as_str().unwrap_or("lora") {
        "lora" => false,
        "dora" => true,
        kind => {
            return Err(
                failed(format!("fine_tune_type is {kind}, which is no adapter"))
                    .hint("fuse it with mlx_lm.fuse and train on the model that this writes"),
            );
        }
    };
    let scale = &value["lora_parameters"]["scale"];
    match scale.as_f64().map(|scale| scale as f32) {
        Some(scale) if scale.is_finite() => Ok((scale, dora)),
        _ => Err(failed(format!(
            "lora_parameters has the scale {scale}, not a number"
        ))
        .hint(
            "MLX multiplies the product of lora_a and lora_b by it: the default of mlx-lm is 20.0",
        )),
    }
}

/// A matrix with rows for columns.
fn turned(weight: &Weight) -> Result<Weight> {
    let turned = transposed(&matrix(weight)?);
    let bytes = Bytes::from_f32(turned.values);
    Weight::new(Format::F32, [turned.rows, turned.columns].into(), bytes)
}
