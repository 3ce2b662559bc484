//! Base models by name or path, with what training needs of them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::data::Tokenizer;
use crate::error::Result;
use crate::format::{Checkpoint, digest};
use crate::models::{self, DecoderSpec};
use crate::train::BUILT_IN;

/// Where models are that are named otherwise than by their path.
#[derive(Debug, Clone, Default)]
pub struct Package {
    /// Where the installed package keeps its built-in model and corpus.
    pub dir: PathBuf,
    /// Where the model is that the options name, when it was fetched from the hub under that name.
    pub fetched: Option<PathBuf>,
}

impl Package {
    /// The file or directory behind `--model`.
    pub fn model_path(&self, model: &str) -> PathBuf {
        match model {
            BUILT_IN => self.dir.join("tiny-transformer.gguf"),
            name => match &self.fetched {
                Some(path) => path.clone(),
                None => PathBuf::from(name),
            },
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
    sha256: Arc<OnceLock<Result<String>>>,
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
            sha256: Arc::default(),
        })
    }

    /// Begins to compute [`Base::sha256`] beside whatever else goes on: gigabytes take many seconds, and a run that is
    /// asked to stop may not have them.
    pub fn begin_hashing(&self) {
        let paths: Vec<PathBuf> = self.paths();
        let sha256 = self.sha256.clone();
        // Without the thread the first who asks computes it.
        let _ = std::thread::Builder::new()
            .name("amv-train-hash".into())
            .spawn(move || sha256.get_or_init(|| hash(&paths)).is_ok());
    }

    /// SHA-256 of the weight files, as the sidecar names it.
    pub fn sha256(&self) -> Result<String> {
        self.sha256.get_or_init(|| hash(&self.paths())).clone()
    }

    fn paths(&self) -> Vec<PathBuf> {
        let paths = self.checkpoint.catalog().paths();
        paths.into_iter().map(Path::to_owned).collect()
    }
}

fn hash(paths: &[PathBuf]) -> Result<String> {
    digest::model(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>())
}
