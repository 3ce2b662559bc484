//! Reads llama.cpp's GGUF adapters: `<tensor of the base>.lora_a` [rank, in], `.lora_b` [out, rank]; `lora_a` of the
//! embedding table is [vocab, rank].

use std::path::Path;

use super::parts::Parts;
use super::{Base, RowOrder, SavedAdapter, refused};
use crate::error::Result;
use crate::format::gguf::GgufFile;
use crate::format::names;
use crate::lora::{LoraConfig, Part, Patterns, Targets};

/// The keys and values that make a GGUF file a LoRA adapter.
pub const KIND: (&str, &str) = ("general.type", "adapter");
pub const ADAPTER_KIND: (&str, &str) = ("adapter.type", "lora");
pub const ARCHITECTURE: &str = "general.architecture";
pub const ALPHA: &str = "adapter.lora.alpha";

/// llama.cpp multiplies B·A by alpha / rank, and by 1 when alpha is 0 or absent.
pub fn read(file: &Path, base: &Base) -> Result<SavedAdapter> {
    let gguf = GgufFile::open(file)?;
    let failed = |message: String| refused(file, message);
    let metadata = gguf.metadata();
    for (key, expected) in [KIND, ADAPTER_KIND, (ARCHITECTURE, base.architecture)] {
        let found = metadata.string(key);
        if found != Some(expected) {
            let found = found.unwrap_or("not there");
            return Err(
                failed(format!("{key} is {found}, not {expected}")).hint(match key {
                    ARCHITECTURE => {
                        "it was made for another base model; --model names the one it was made for"
                    }
                    _ => "name a LoRA adapter as llama.cpp's convert_lora_to_gguf.py writes it",
                }),
            );
        }
    }
    if metadata.get("adapter.alora.invocation_tokens").is_some() {
        return Err(failed(
            "it is an activated LoRA, which cannot be continued in this version".into(),
        ));
    }
    let mut parts = Parts::default();
    for name in gguf.tensor_names() {
        let ending = [(".lora_a", Part::A), (".lora_b", Part::B)]
            .into_iter()
            .find_map(|(suffix, part)| Some((name.strip_suffix(suffix)?, part)));
        let Some((tensor, part)) = ending else {
            return Err(failed(format!(
                "{name} ends neither in .lora_a nor in .lora_b"
            )));
        };
        let path = names::to_hugging_face(base.architecture, tensor);
        let path = path
            .as_deref()
            .and_then(|path| path.strip_suffix(".weight"));
        let Some(path) = path else {
            return Err(failed(format!(
                "{name} belongs to no layer of the architecture {}",
                base.architecture
            )));
        };
        parts.add(path.to_owned(), part, name, gguf.weight(name)?);
    }
    let pairs = parts.finish(file, base, RowOrder::Gguf)?;
    let alpha = metadata.float(ALPHA).unwrap_or(0.0) as f32;
    if !alpha.is_finite() {
        return Err(failed(format!("{ALPHA} is {alpha}")));
    }
    let ranks = pairs
        .iter()
        .map(|(path, pair)| (path.as_str(), pair.rank()));
    let (rank, rank_pattern) = Patterns::of_layers(ranks.clone(), 0)?;
    let alphas = ranks.map(|(path, rank)| match alpha == 0.0 {
        true => (path, rank as f32),
        false => (path, alpha),
    });
    let (alpha, alpha_pattern) = Patterns::of_layers(alphas, 0.0)?;
    let config = LoraConfig {
        rank,
        alpha,
        rank_pattern,
        alpha_pattern,
        targets: Targets::Names(pairs.keys().cloned().collect()),
        ..LoraConfig::default()
    };
    Ok(SavedAdapter { pairs, config })
}
