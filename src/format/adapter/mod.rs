//! Adapters that others or earlier runs made: PEFT directories, `.safetensors` with settings beside them, llama.cpp's GGUF.
//!
//! What is read is either understood whole or refused by name: a part left out would train something else silently.
//! Source of the layouts: PEFT 0.21 `save_and_load.py`, llama.cpp `convert_lora_to_gguf.py` and `llama-adapter.cpp`.

mod base;
pub mod gguf;
mod halves;
pub mod peft;
mod rows;
mod settings;

pub use base::Base;
pub use halves::Half;
pub use rows::RowOrder;

use std::collections::BTreeMap;
use std::path::Path;

use crate::bail;
use crate::error;
use crate::error::{Code, Error, Result};
use crate::format::catalog::in_file;
use crate::lora::{Pair, Targets};

/// An adapter as a run can continue it.
#[derive(Debug, Clone)]
pub struct SavedAdapter {
    /// By path of the layer, with the rows of B in the order of the base model's own rows.
    pub pairs: BTreeMap<String, Pair>,
    pub rank: usize,
    /// B·A is multiplied by `alpha / rank`, whatever rule the file had.
    pub alpha: f32,
}

impl SavedAdapter {
    /// Exactly the layers that have a pair, for `LoraConfig::targets`.
    pub fn targets(&self) -> Targets {
        Targets::Names(self.pairs.keys().cloned().collect())
    }

    /// The last names of those layers, such as `q_proj`, each once.
    pub fn leaves(&self) -> Vec<&str> {
        let paths = self.pairs.keys();
        let mut leaves: Vec<&str> = paths.filter_map(|path| path.rsplit('.').next()).collect();
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    }

    /// Whether `targets` means exactly the layers of `base` that have a pair.
    pub fn is_for(&self, targets: &Targets, base: &Base) -> bool {
        let has_pair = |path: &String| self.pairs.contains_key(path);
        let layers = base.layers();
        layers
            .iter()
            .all(|path| targets.match_path(path) == has_pair(path))
    }
}

/// Reads the adapter at `path` for the model `base`: a PEFT directory, a `.safetensors` file with `<stem>_config.json` or
/// `adapter_config.json` beside it, or a GGUF adapter.
///
/// Errors: `NOT_FOUND` for a missing file or missing settings; `BAD_ADAPTER` for everything that is no plain LoRA of this
/// base (DoRA, full weights, embeddings, ranks or alphas that differ by layer, half pairs, other shapes or layers);
/// `NON_FINITE` for values that are not numbers.
pub fn read(path: &Path, base: &Base) -> Result<SavedAdapter> {
    if !path.exists() {
        return Err(
            error!(NotFound, "there is no adapter at {}", path.display()).hint(
                "an adapter is a directory that PEFT wrote, a .safetensors file or a .gguf file",
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

/// Refuses factors that hold an infinity or something that is no number.
pub fn check_finite(path: &str, pair: &Pair) -> Result<()> {
    for (name, matrix) in [("A", &pair.a), ("B", &pair.b)] {
        if let Some(at) = matrix.values.iter().position(|value| !value.is_finite()) {
            bail!(
                NonFinite,
                "{path}: {name}[{}, {}] of the adapter is {}",
                at / matrix.columns,
                at % matrix.columns,
                matrix.values[at]
            );
        }
    }
    Ok(())
}

/// An error about the adapter file at `path`.
fn refused(path: &Path, message: String) -> Error {
    in_file(path, Error::new(Code::BadAdapter, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Bytes;
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
    fn targets_no_file_could_carry_are_refused_before_anything_is_loaded() {
        let mut base = base("llama", 2, 1);
        base.check_targets(&Targets::parse("q_proj,lm_head"))
            .unwrap();
        base.tied = true;
        let error = base.check_targets(&Targets::parse("q_proj,lm_head"));
        assert_eq!(error.unwrap_err().code, Code::Usage);
        base.check_targets(&Targets::AllLinear).unwrap();
        let error = base.check_targets(&Targets::parse("embed_tokens"));
        assert_eq!(error.unwrap_err().code, Code::Usage);
    }

    #[test]
    fn values_that_are_no_numbers_are_named_by_place() {
        let matrix = |rows, columns| crate::lora::Matrix {
            rows,
            columns,
            values: vec![1.0; rows * columns],
        };
        let mut pair = Pair {
            a: matrix(2, 3),
            b: matrix(4, 2),
        };
        check_finite("x", &pair).unwrap();
        pair.b.values[5] = f32::NAN;
        let error = check_finite("x", &pair).unwrap_err();
        assert_eq!(error.code, Code::NonFinite);
        assert_eq!(error.message, "x: B[2, 1] of the adapter is NaN");
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
