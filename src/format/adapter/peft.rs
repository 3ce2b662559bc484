//! Reads adapters with PEFT's tensor names: `base_model.model.<path>.lora_A.weight` [rank, in], `.lora_B.weight` [out, rank],
//! `.lora_embedding_A` and `_B` of the embedding table, `.lora_magnitude_vector` of DoRA.

use std::path::{Path, PathBuf};

use super::mlx;
use super::parts::Parts;
use super::settings::{self, FULL_WEIGHT_HINT};
use super::{Base, RowOrder, SavedAdapter, refused};
use crate::error;
use crate::error::Result;
use crate::format::safetensors::Safetensors;
use crate::lora::{LoraConfig, PEFT_PREFIX, Part, Targets};
use crate::quant::Weight;

pub const CONFIG: &str = "adapter_config.json";
pub const TENSORS: &str = "adapter_model.safetensors";

pub(super) const MLX_HINT: &str = "names and settings must be of one kind: those of MLX are <layer>.lora_a, .lora_b and \
     lora_parameters, those of PEFT base_model.model.<layer>.lora_A.weight, .lora_B.weight, r and lora_alpha";

/// Reads `adapter_model.safetensors` and `adapter_config.json` of a directory, or `adapters.safetensors` where MLX wrote it.
pub fn read_directory(directory: &Path, base: &Base) -> Result<SavedAdapter> {
    let tensors = directory.join(TENSORS);
    let of_mlx = directory.join(mlx::TENSORS);
    if !tensors.exists() && of_mlx.exists() {
        return read_file(&of_mlx, base);
    }
    if !tensors.exists() {
        let hint = match directory.join("adapter_model.bin").exists() {
            true => "it has adapter_model.bin: save the adapter as safetensors with PEFT",
            false => "name the directory that PEFT wrote, or the .safetensors or .gguf file itself",
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
    if mlx::wrote(&tensors) {
        return mlx::read(file, &tensors, base);
    }
    // Names first: they tell what the file is, which a missing config does not.
    let mut parts = Parts::default();
    for name in tensors.tensor_names() {
        match Part::of_peft_name(name) {
            Some((path, part)) => parts.add(path.to_owned(), part, name, tensors.weight(name)?),
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
    let settings = settings::read(config)?;
    let pairs = parts.finish(file, base, RowOrder::HuggingFace)?;
    for (path, pair) in &pairs {
        let (expected, found) = (settings.rank_of(path), pair.rank());
        if expected != found {
            return Err(refused(
                config,
                format!("{path} has rank {found}, but r and rank_pattern say {expected}"),
            ));
        }
        if settings.dora != pair.magnitude.is_some() {
            let problem = match settings.dora {
                true => "use_dora is true, but there is no",
                false => "use_dora is false, but there is a",
            };
            let name = Part::Magnitude.peft_name(path);
            return Err(refused(config, format!("{problem} {name}")));
        }
    }
    // PEFT does not mind keys that match nothing.
    let paths: Vec<&str> = pairs.keys().map(String::as_str).collect();
    let config = LoraConfig {
        rank_pattern: settings.rank_pattern.of_paths(&paths),
        alpha_pattern: settings.alpha_pattern.of_paths(&paths),
        targets: Targets::Names(pairs.keys().cloned().collect()),
        ..settings
    };
    Ok(SavedAdapter { pairs, config })
}

/// Refuses a tensor that is no part of a pair, unless it is a copy of the base model's own.
fn check_other(file: &Path, name: &str, tensors: &Safetensors, base: &Base) -> Result<()> {
    let failed =
        |message: String, hint: &str| -> Result<()> { Err(refused(file, message).hint(hint)) };
    if name.ends_with(".lora_a") || name.ends_with(".lora_b") {
        return failed(format!("{name} is a name of MLX"), MLX_HINT);
    }
    let Some(path) = name.strip_prefix(PEFT_PREFIX) else {
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
        format!("{name} is no part of a LoRA or DoRA"),
        "only lora_A, lora_B and lora_magnitude_vector of linear layers and the embedding table can be continued",
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
