//! Model families. A family file turns a checkpoint's configuration into a [`DecoderSpec`]; the mathematics of all of them
//! is in `decoder.rs`.

mod adapter_base;
mod decoder;
mod gemma;
mod head;
mod llama;
mod phi;
mod qwen;
mod scaling;
mod spec;

pub use adapter_base::adapter_base;
pub use decoder::Decoder;
pub(crate) use head::block_tokens;
pub use spec::{DecoderSpec, LayerSpec};

use crate::error;
use crate::error::Result;
use crate::format::Config;

/// An architecture that can be trained.
pub struct Family {
    /// Its name in GGUF files (`general.architecture`) and in `amv-train models`.
    pub name: &'static str,
    /// The `model_type`s of config.json that are of this family.
    pub model_types: &'static [&'static str],
    /// Models people know it by.
    pub known_as: &'static str,
    read: fn(&Config) -> Result<DecoderSpec>,
}

pub const FAMILIES: [Family; 6] = [
    Family {
        name: "llama",
        model_types: &["llama", "mistral"],
        known_as: "Llama 2 and 3.x, Mistral, SmolLM2, TinyLlama",
        read: llama::read,
    },
    Family {
        name: "qwen2",
        model_types: &["qwen2"],
        known_as: "Qwen2, Qwen2.5",
        read: qwen::read_qwen2,
    },
    Family {
        name: "qwen3",
        model_types: &["qwen3"],
        known_as: "Qwen3 (dense)",
        read: qwen::read_qwen3,
    },
    Family {
        name: "gemma2",
        model_types: &["gemma2"],
        known_as: "Gemma 2",
        read: gemma::read_gemma2,
    },
    Family {
        name: "gemma3",
        model_types: &["gemma3_text"],
        known_as: "Gemma 3 (text)",
        read: gemma::read_gemma3,
    },
    Family {
        name: "phi3",
        model_types: &["phi3"],
        known_as: "Phi-3, Phi-3.5, Phi-4-mini",
        read: phi::read,
    },
];

/// The family of a checkpoint and what its configuration says, or an error that names the architecture.
pub fn read(config: &Config) -> Result<(&'static Family, DecoderSpec)> {
    let architecture = config.architecture().unwrap_or("(none)");
    let belongs = |family: &&Family| match config.is_gguf() {
        true => family.name == architecture,
        false => family.model_types.contains(&architecture),
    };
    let Some(family) = FAMILIES.iter().find(belongs) else {
        let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
        return Err(error!(
            UnsupportedModel,
            "the architecture {architecture} cannot be trained in this version"
        )
        .hint(format!(
            "architectures: {}; see `amv-train models`",
            names.join(", ")
        )));
    };
    Ok((family, (family.read)(config)?))
}
