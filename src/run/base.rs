//! Base models by name or path, with what training needs of them.

use std::path::{Path, PathBuf};

use crate::data::Tokenizer;
use crate::error::Result;
use crate::format::Checkpoint;
use crate::models::{self, DecoderSpec};
use crate::train::BUILT_IN;

/// Where the installed package keeps its built-in model and corpus.
#[derive(Debug, Clone)]
pub struct Package {
    pub dir: PathBuf,
}

impl Package {
    /// The file or directory behind `--model`.
    pub fn model_path(&self, model: &str) -> PathBuf {
        match model {
            BUILT_IN => self.dir.join("tiny-transformer.gguf"),
            path => PathBuf::from(path),
        }
    }

    /// The text the built-in model is trained on when no other is named.
    pub fn sample_corpus(&self) -> PathBuf {
        self.dir.join("sample.txt")
    }
}

/// An opened base model whose architecture can be trained.
pub struct Base {
    pub checkpoint: Checkpoint,
    pub tokenizer: Tokenizer,
    pub spec: DecoderSpec,
}

impl Base {
    pub fn open(path: &Path) -> Result<Base> {
        let checkpoint = Checkpoint::open(path)?;
        let (_, spec) = models::read(checkpoint.config())?;
        let tokenizer = match checkpoint.gguf() {
            Some(metadata) => Tokenizer::from_gguf(metadata)?,
            None => Tokenizer::from_dir(path)?,
        };
        Ok(Base {
            checkpoint,
            tokenizer,
            spec,
        })
    }
}
