//! A base model on disk, whichever kind of file it is in: configuration, tensors by their Hugging Face names, files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error;
use crate::error::Result;
use crate::format::gguf::{GgufFile, Metadata};
use crate::format::safetensors::Safetensors;
use crate::format::{Catalog, Config, digest, names};
use crate::nn::{Layout, Source};
use crate::quant::Weight;

/// An opened base model. Tensor data stays in the mapped files.
pub struct Checkpoint {
    path: PathBuf,
    config: Config,
    files: Arc<Files>,
}

enum Files {
    HuggingFace(Safetensors),
    /// With the GGUF name of every tensor by its Hugging Face name; names without one keep their own.
    Gguf(GgufFile, HashMap<String, String>),
}

impl Checkpoint {
    /// Opens a `.gguf` file or a Hugging Face directory.
    pub fn open(path: &Path) -> Result<Checkpoint> {
        if !path.exists() {
            return Err(error!(NotFound, "there is no model at {}", path.display())
                .hint("--model takes a .gguf file, a directory with config.json and model.safetensors, org/name of the Hugging Face hub, or tiny-transformer"));
        }
        let (config, files) = match path.is_dir() {
            true => (
                Config::from_dir(path)?,
                Files::HuggingFace(Safetensors::open(path)?),
            ),
            false => {
                let file = GgufFile::open(path)?;
                let config = Config::from_gguf(file.metadata())?;
                let architecture = config.architecture().unwrap_or_default();
                let pair = |name: &str| {
                    let translated = names::to_hugging_face(architecture, name);
                    (
                        translated.unwrap_or_else(|| name.to_owned()),
                        name.to_owned(),
                    )
                };
                let by_name = file.tensor_names().map(pair).collect();
                (config, Files::Gguf(file, by_name))
            }
        };
        Ok(Checkpoint {
            path: path.to_owned(),
            config,
            files: Arc::new(files),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> usize {
        let size = |path: &&Path| std::fs::metadata(path).map_or(0, |about| about.len());
        let bytes: u64 = self.catalog().paths().iter().map(size).sum();
        bytes as usize
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The weights, for a `Loader`.
    pub fn source(&self) -> Arc<dyn Source> {
        self.files.clone()
    }

    /// GGUF metadata; none of a Hugging Face directory.
    pub fn gguf(&self) -> Option<&Metadata> {
        match &*self.files {
            Files::Gguf(file, _) => Some(file.metadata()),
            Files::HuggingFace(_) => None,
        }
    }

    /// `gguf` or `safetensors`.
    pub fn format_name(&self) -> &'static str {
        match &*self.files {
            Files::Gguf(..) => "gguf",
            Files::HuggingFace(_) => "safetensors",
        }
    }

    pub fn catalog(&self) -> &Catalog {
        match &*self.files {
            Files::Gguf(file, _) => file.catalog(),
            Files::HuggingFace(file) => file.catalog(),
        }
    }

    /// SHA-256 of the weight files, as the sidecar names it.
    pub fn sha256(&self) -> Result<String> {
        digest::model(&self.catalog().paths())
    }
}

impl Source for Files {
    fn weight(&self, name: &str) -> Result<Weight> {
        match self {
            Files::HuggingFace(file) => file.weight(name),
            Files::Gguf(file, by_name) => {
                file.weight(by_name.get(name).map_or(name, String::as_str))
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Files::HuggingFace(file) => file.catalog().get(name).is_some(),
            Files::Gguf(_, by_name) => by_name.contains_key(name),
        }
    }

    fn names(&self) -> Vec<String> {
        match self {
            // Old checkpoints store the rotary frequencies, which the configuration determines.
            Files::HuggingFace(file) => file
                .tensor_names()
                .filter(|name| !name.ends_with(".rotary_emb.inv_freq"))
                .map(str::to_owned)
                .collect(),
            Files::Gguf(_, by_name) => {
                // In order, so that the first of several problems is the same each time.
                let mut names: Vec<String> = by_name.keys().cloned().collect();
                names.sort();
                names
            }
        }
    }

    fn layout(&self) -> Layout {
        match self {
            Files::HuggingFace(_) => Layout::HuggingFace,
            Files::Gguf(..) => Layout::Gguf,
        }
    }
}
