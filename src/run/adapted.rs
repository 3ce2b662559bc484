//! A base model with a trained adapter in place, for the commands that use what a run has made.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::backend;
use crate::error;
use crate::error::{Error, Result};
use crate::export::Output;
use crate::format::adapter::{self, SavedAdapter};
use crate::lora::Adapter;
use crate::models::{self, Decoder};
use crate::nn::Loader;
use crate::run::Package;
use crate::run::base::Base;
use crate::run::threads::Threads;
use crate::train::{Event, Listener};

/// An opened base and the adapter made for it.
pub struct Adapted {
    pub base: Base,
    pub adapter_base: adapter::Base,
    pub saved: Option<SavedAdapter>,
}

impl Adapted {
    /// Opens the base `model`, and `adapter` when there is one; warns when the adapter was trained on another base.
    pub fn open(
        model: &str,
        adapter: Option<&str>,
        package: &Package,
        listener: &dyn Listener,
    ) -> Result<Adapted> {
        let base = Base::open(&package.model_path(model))?;
        let adapter_base = models::adapter_base(&base.checkpoint)?;
        let saved = match adapter {
            Some(path) => {
                let path = Path::new(path);
                let saved = adapter::read(path, &adapter_base)?;
                warn_of_other_base(path, &base, listener)?;
                Some(saved)
            }
            None => None,
        };
        Ok(Adapted {
            base,
            adapter_base,
            saved,
        })
    }

    /// The adapter as a model holds it; none when there is none.
    pub fn adapter(&self) -> Option<Arc<Adapter>> {
        let SavedAdapter { pairs, config } = self.saved.clone()?;
        Some(Adapter::continuing(config, pairs))
    }

    /// The model with `adapter`, or the base alone.
    pub fn decoder(&self, adapter: Option<Arc<Adapter>>) -> Result<Decoder> {
        let checkpoint = &self.base.checkpoint;
        Decoder::load(
            checkpoint.config(),
            &Loader::new(checkpoint.source(), adapter),
        )
    }
}

/// The sidecar that belongs to an adapter's file or directory; none of an adapter that others made.
pub fn sidecar(adapter: &Path) -> Result<Option<(PathBuf, Value)>> {
    let in_directory = |directory: &Path| Output::Directory(directory.to_owned()).sidecar();
    let mut places = Vec::new();
    if adapter.is_dir() {
        places.push(in_directory(adapter));
    } else {
        places.push(Output::File(adapter.to_owned()).sidecar());
        places.extend(adapter.parent().map(in_directory));
    }
    let Some(path) = places.into_iter().find(|path| path.is_file()) else {
        return Ok(None);
    };
    let text = std::fs::read(&path).map_err(|cause| Error::file("read", &path, &cause))?;
    let value: Value = serde_json::from_slice(&text).map_err(|cause| {
        error!(
            BadAdapter,
            "{} is not the JSON of a sidecar: {cause}",
            path.display()
        )
    })?;
    let is_ours = value["format"] == "amv-train-adapter";
    Ok(is_ours.then_some((path, value)))
}

/// An adapter on another base computes something, but not what was trained.
fn warn_of_other_base(path: &Path, base: &Base, listener: &dyn Listener) -> Result<()> {
    let Some((_, sidecar)) = sidecar(path)? else {
        return Ok(());
    };
    let Some(trained) = sidecar["base_model"]["sha256"].as_str() else {
        return Ok(());
    };
    let found = base.sha256()?;
    if trained != found {
        listener.event(&Event::Warning {
            code: "OTHER_BASE",
            message: format!(
                "the adapter was trained on another base: {} with the hash {trained}; this model has {found}, so results will differ from those of the training",
                sidecar["base_model_name_or_path"].as_str().unwrap_or("one")
            ),
        });
    }
    Ok(())
}

/// Opens the backend `name` and runs `work` on `threads` threads.
pub fn with_threads<T: Send>(
    backend: &str,
    threads: usize,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    backend::open(backend)?;
    Threads::start(threads)?.install(work)
}
