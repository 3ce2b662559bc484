//! Adapters that others or earlier runs made: PEFT directories, `.safetensors` with settings beside them, those of MLX, and
//! llama.cpp's GGUF.
//!
//! What is read is either understood whole or refused by name: a part left out would train something else silently.
//! Source of the layouts: PEFT 0.21 `save_and_load.py`, llama.cpp `convert_lora_to_gguf.py` and `llama-adapter.cpp`.

mod base;
pub mod gguf;
mod mlx;
mod parts;
pub mod peft;
mod rows;
mod settings;

pub use base::Base;
pub use parts::transposed;
pub use rows::RowOrder;

use std::collections::BTreeMap;
use std::path::Path;

use crate::error;
use crate::error::{Code, Error, Result};
use crate::format::catalog::in_file;
use crate::lora::{LoraConfig, Pair};

/// An adapter as a run can continue it, or as it can be merged.
#[derive(Debug, Clone)]
pub struct SavedAdapter {
    /// By path of the layer, with the rows of B in the order of the base model's own rows.
    pub pairs: BTreeMap<String, Pair>,
    /// What they were made like: rank, alpha and their patterns, rsLoRA, DoRA. Targets are exactly the layers that have a
    /// pair; dropout and seed are the defaults, since no file decides them.
    pub config: LoraConfig,
}

impl SavedAdapter {
    /// The last names of those layers, such as `q_proj`, each once.
    pub fn leaves(&self) -> Vec<&str> {
        let paths = self.pairs.keys();
        let mut leaves: Vec<&str> = paths.filter_map(|path| path.rsplit('.').next()).collect();
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    }
}

/// Reads the adapter at `path` for the model `base`: a directory of PEFT or MLX, a `.safetensors` file with
/// `<stem>_config.json` or `adapter_config.json` beside it, or a GGUF adapter.
///
/// Errors: `NOT_FOUND` for a missing file or missing settings; `BAD_ADAPTER` for everything that is no LoRA or DoRA of this
/// base (full weights, half pairs, other shapes or layers, ranks that the settings do not say); `NON_FINITE` for values
/// that are not numbers.
pub fn read(path: &Path, base: &Base) -> Result<SavedAdapter> {
    if !path.exists() {
        return Err(
            error!(NotFound, "there is no adapter at {}", path.display()).hint(
                "an adapter is a directory that PEFT or MLX wrote, a .safetensors file or a .gguf file",
            ),
        );
    }
    let saved = match path.extension().and_then(|extension| extension.to_str()) {
        _ if path.is_dir() => peft::read_directory(path, base),
        Some("safetensors") => peft::read_file(path, base),
        Some("gguf") => gguf::read(path, base),
        _ => {
            return Err(error!(
                BadAdapter,
                "{} is neither a directory nor a .safetensors or .gguf file",
                path.display()
            )
            .hint("adapters saved as .bin or .pt can be saved again as safetensors with PEFT"));
        }
    };
    // The readers of model files speak of models; here the same damage is an adapter's.
    saved.map_err(|mut error| {
        if matches!(error.code, Code::BadModel | Code::UnsupportedFormat) {
            error.code = Code::BadAdapter;
        }
        error
    })
}

/// An error about the adapter file at `path`.
fn refused(path: &Path, message: String) -> Error {
    in_file(path, Error::new(Code::BadAdapter, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Bytes;
    use crate::bail;
    use crate::lora::Targets;
    use crate::nn::{Layout, Source};
    use crate::ops::Pairs;
    use crate::quant::{Format, Weight};
    use std::sync::Arc;

    /// A base that has one weight, `lm_head.weight` [3, 2] with the values 0, 1, … 5.
    struct Head;

    impl Source for Head {
        fn weight(&self, name: &str) -> Result<Weight> {
            if !self.has(name) {
                bail!(BadModel, "no {name}");
            }
            let values = (0..6).map(|value| value as f32).collect();
            Weight::new(Format::F32, [3, 2].into(), Bytes::from_f32(values))
        }

        fn has(&self, name: &str) -> bool {
            name == "lm_head.weight"
        }

        fn names(&self) -> Vec<String> {
            vec!["lm_head.weight".into()]
        }

        fn layout(&self) -> Layout {
            Layout::HuggingFace
        }
    }

    pub(super) fn base(architecture: &'static str, heads: usize, kv_heads: usize) -> Base {
        Base {
            architecture,
            heads,
            kv_heads,
            pairs: Pairs::Halves,
            tied: false,
            source: Arc::new(Head),
        }
    }

    #[test]
    fn the_head_and_table_of_a_tied_model_are_refused_before_anything_is_loaded() {
        let mut base = base("llama", 2, 1);
        let config = |targets: &str| LoraConfig {
            rank: 2,
            targets: Targets::parse(targets).unwrap(),
            ..LoraConfig::default()
        };
        base.check(&config("lm_head")).unwrap();
        base.tied = true;
        for targets in ["q_proj,lm_head", "embed_tokens", ".*head"] {
            let error = base.check(&config(targets)).unwrap_err();
            assert_eq!(error.code, Code::Usage);
            assert!(error.message.contains("its embedding table"), "{error}");
        }
    }

    #[test]
    fn other_paths_are_refused_with_what_would_fit() {
        let folder = tempfile::tempdir().unwrap();
        let base = base("llama", 2, 1);
        let missing = read(&folder.path().join("none"), &base).unwrap_err();
        assert_eq!(missing.code, Code::NotFound);
        let file = folder.path().join("adapter.pt");
        std::fs::write(&file, "x").unwrap();
        let error = read(&file, &base).unwrap_err();
        assert_eq!(error.code, Code::BadAdapter);
        let damaged = folder.path().join("a.gguf");
        std::fs::write(&damaged, "GGUF").unwrap();
        assert_eq!(read(&damaged, &base).unwrap_err().code, Code::BadAdapter);
    }
}
