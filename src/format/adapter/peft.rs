//! Reads adapters with PEFT's tensor names: `base_model.model.<path>.lora_A.weight` [rank, in], `.lora_B.weight` [out, rank].

use std::path::{Path, PathBuf};

use super::halves::{Half, Halves};
use super::settings::{DORA_HINT, FULL_WEIGHT_HINT, Settings};
use super::{Base, RowOrder, SavedAdapter, refused};
use crate::error;
use crate::error::Result;
use crate::format::safetensors::Safetensors;
use crate::quant::Weight;

pub const CONFIG: &str = "adapter_config.json";
pub const TENSORS: &str = "adapter_model.safetensors";
const PREFIX: &str = "base_model.model.";

pub(super) const MLX_HINT: &str = "MLX keeps lora_a [in, rank] and lora_b [rank, out] and a scale: transpose both, name them \
     base_model.model.<layer>.lora_A.weight and .lora_B.weight, and write an adapter_config.json with r and lora_alpha = scale · r";

/// Reads `adapter_model.safetensors` and `adapter_config.json` of a directory.
pub fn read_directory(directory: &Path, base: &Base) -> Result<SavedAdapter> {
    let tensors = directory.join(TENSORS);
    if !tensors.exists() {
        let hint = match () {
            _ if directory.join("adapter_model.bin").exists() => {
                "it has adapter_model.bin: save the adapter as safetensors with PEFT"
            }
            _ if directory.join("adapters.safetensors").exists() => MLX_HINT,
            _ => "name the directory that PEFT wrote, or the .safetensors or .gguf file itself",
        };
        return Err(error!(NotFound, "{} has no {TENSORS}", directory.display()).hint(hint));
    }
    read_with(&tensors, &[directory.join(CONFIG)], base)
}

/// Reads a `.safetensors` file with the settings of `<stem>_config.json` or `adapter_config.json` beside it.
pub fn read_file(file: &Path, base: &Base) -> Result<SavedAdapter> {
    read_with(file, &[sidecar(file), file.with_file_name(CONFIG)], base)
}

/// The sidecar of a `.safetensors` adapter: `x_config.json` beside `x.safetensors`.
pub fn sidecar(file: &Path) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push("_config.json");
    file.with_file_name(name)
}

fn read_with(file: &Path, configs: &[PathBuf], base: &Base) -> Result<SavedAdapter> {
    let tensors = Safetensors::open(file)?;
    // Names first: they tell what the file is, which a missing config does not.
    let mut halves = Halves::default();
    for name in tensors.tensor_names() {
        match part(name) {
            Some((path, half)) => halves.add(path.to_owned(), half, name, tensors.weight(name)?),
            None => check_other(file, name, &tensors, base)?,
        }
    }
    let Some(config) = configs.iter().find(|path| path.exists()) else {
        let names: Vec<_> = configs
            .iter()
            .filter_map(|path| path.file_name()?.to_str())
            .collect();
        return Err(error!(
            NotFound,
            "{} has no settings beside it: {}",
            file.display(),
            names.join(" or ")
        )
        .hint("rank and alpha stand there; {\"peft_type\": \"LORA\", \"r\": …, \"lora_alpha\": …} is enough"));
    };
    let settings = Settings::read(config)?;
    let (pairs, rank) = halves.finish(file, base, RowOrder::HuggingFace)?;
    if rank != settings.rank {
        return Err(refused(
            config,
            format!("r is {}, the tensors have rank {rank}", settings.rank),
        ));
    }
    Ok(SavedAdapter {
        pairs,
        rank,
        alpha: settings.alpha,
    })
}

/// The layer and half that a tensor name means.
fn part(name: &str) -> Option<(&str, Half)> {
    let path = name.strip_prefix(PREFIX)?;
    let half = |suffix| path.strip_suffix(suffix);
    half(".lora_A.weight")
        .map(|path| (path, Half::A))
        .or_else(|| half(".lora_B.weight").map(|path| (path, Half::B)))
}

/// Refuses a tensor that is no half of a pair, unless it is a copy of the base model's own.
fn check_other(file: &Path, name: &str, tensors: &Safetensors, base: &Base) -> Result<()> {
    let failed =
        |message: String, hint: &str| -> Result<()> { Err(refused(file, message).hint(hint)) };
    if name.ends_with(".lora_magnitude_vector") {
        return failed(
            format!("{name} is of a DoRA adapter, which cannot be continued in this version"),
            DORA_HINT,
        );
    }
    if name.contains(".lora_embedding_") {
        return failed(
            format!("{name}: adapters of embeddings cannot be continued in this version"),
            "train it without the embedding among its targets",
        );
    }
    if name.ends_with(".lora_a") || name.ends_with(".lora_b") {
        return failed(format!("{name} is a name of MLX"), MLX_HINT);
    }
    let Some(path) = name.strip_prefix(PREFIX) else {
        return failed(
            format!("{name} is no name that PEFT gives"),
            "names look like base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
        );
    };
    // PEFT stores the embedding and the head whole beside a LoRA of the head.
    let original = path.replace(".base_layer.", ".");
    if original.ends_with(".weight") && !original.contains(".lora_") {
        if base.source.has(&original)
            && same(&tensors.weight(name)?, &base.source.weight(&original)?)?
        {
            return Ok(());
        }
        return failed(
            format!("{name} is a whole weight, not a LoRA, and differs from the base model's"),
            FULL_WEIGHT_HINT,
        );
    }
    failed(
        format!("{name} is no part of a plain LoRA"),
        "only lora_A and lora_B of linear layers can be continued",
    )
}

/// Whether two weights have equal values, compared a row at a time.
fn same(one: &Weight, other: &Weight) -> Result<bool> {
    if one.shape() != other.shape() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0.0; one.shape().last()], vec![0.0; one.shape().last()]);
    for row in 0..one.shape().rows() {
        one.unpack_rows(row, &mut left)?;
        other.unpack_rows(row, &mut right)?;
        if left != right {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The name in PEFT files of one half of the layer at `path`.
pub fn tensor_name(path: &str, half: Half) -> String {
    let letter = match half {
        Half::A => 'A',
        Half::B => 'B',
    };
    format!("{PREFIX}{path}.lora_{letter}.weight")
}
