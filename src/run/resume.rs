//! How a run begins: anew, or from a checkpoint.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error;
use crate::error::{Error, Result};
use crate::export::Output;
use crate::lora::{Adapter, ParameterState};
use crate::run::identity::frozen;
use crate::run::log::Log;
use crate::run::workspace::Workspace;
use crate::train::checkpoint::{Checkpoint, Checkpoints};
use crate::train::{Event, Listener, TrainOptions};

/// What `--resume` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resume {
    No,
    /// The newest complete checkpoint of this output, or anew when there is none.
    Auto,
    /// A checkpoint, or a directory of them.
    From(PathBuf),
}

impl Resume {
    pub fn of(options: &TrainOptions) -> Resume {
        match options.resume.as_deref() {
            None => Resume::No,
            Some("auto") => Resume::Auto,
            Some(path) => Resume::From(path.into()),
        }
    }

    /// Refuses to replace an adapter or a run that can be gone on with, before any work; `--overwrite` replaces both.
    pub fn check(&self, output: &Output, options: &TrainOptions) -> Result<()> {
        let own = Workspace::checkpoints(output);
        let continued = match self {
            Resume::No => false,
            Resume::Auto => !own.steps().is_empty(),
            Resume::From(path) => {
                let chosen = checkpoints(path)?;
                chosen.directory().canonicalize().ok() == own.directory().canonicalize().ok()
            }
        };
        if continued || options.overwrite {
            return Ok(());
        }
        let (files, steps) = (output.existing(), own.steps());
        match (files.first(), steps.last()) {
            (Some(path), Some(_)) => Err(error!(Usage, "{} exists already", path.display()).hint(
                "choose another --output, replace it with --overwrite, or go on with its run with --resume auto",
            )),
            (Some(path), None) => Err(error!(Usage, "{} exists already", path.display())
                .hint("choose another --output, or replace it with --overwrite; it has no checkpoint for --resume auto")),
            (None, Some(step)) => Err(error!(
                Usage,
                "{} has a run that was interrupted after step {step}",
                own.directory().display()
            )
            .hint("go on with --resume auto, or start anew with --overwrite")),
            (None, None) => Ok(()),
        }
    }

    /// What the run takes for the time: that of the run it goes on with, where its data holds it, else now.
    pub fn now(&self, output: &Output) -> SystemTime {
        let newest = |checkpoints: Checkpoints| {
            let steps = checkpoints.steps().into_iter().rev();
            let mut contents =
                steps.filter_map(|step| Checkpoint::contents(&checkpoints.at(step)).ok());
            contents.next()
        };
        let saved = match self {
            Resume::No => None,
            Resume::Auto => newest(Workspace::checkpoints(output)),
            Resume::From(path) if Checkpoint::is_at(path) => Checkpoint::contents(path).ok(),
            Resume::From(path) => checkpoints(path).ok().and_then(newest),
        };
        let frozen = saved.and_then(|saved| frozen(&saved.run));
        frozen.unwrap_or_else(SystemTime::now)
    }

    /// The checkpoint to go on from; none to start anew, which `auto` says aloud.
    ///
    /// Errors: a path without a checkpoint, and one that is named and damaged.
    pub fn find(&self, output: &Output, log: &Log) -> Result<Option<Checkpoint>> {
        let newest = |checkpoints: &Checkpoints| {
            checkpoints.newest(|error| {
                let message = format!("{}; an older checkpoint is looked for", error.message);
                warn(log, "BAD_CHECKPOINT", message);
            })
        };
        match self {
            Resume::No => Ok(None),
            Resume::Auto => {
                let own = Workspace::checkpoints(output);
                let found = newest(&own);
                if found.is_none() {
                    let place = own.directory().display();
                    let message = format!("no checkpoint in {place}: the run starts anew");
                    warn(log, "NO_CHECKPOINT", message);
                }
                Ok(found)
            }
            Resume::From(path) if Checkpoint::is_at(path) => Ok(Some(Checkpoint::read(path)?)),
            Resume::From(path) => match newest(&checkpoints(path)?) {
                Some(found) => Ok(Some(found)),
                None => Err(no_checkpoint(path)),
            },
        }
    }
}

/// The checkpoints at `path`: of a run's folder, of its `checkpoints/`, or beside the one that is named.
fn checkpoints(path: &Path) -> Result<Checkpoints> {
    if Checkpoint::is_at(path) {
        let absolute = path
            .canonicalize()
            .map_err(|cause| Error::file("read", path, &cause))?;
        let parent = absolute.parent().unwrap_or(Path::new("/"));
        return Ok(Checkpoints::new(parent.to_owned()));
    }
    let places = [path.join("checkpoints"), path.to_owned()];
    let found = places.into_iter().map(Checkpoints::new);
    let mut found = found.filter(|checkpoints| !checkpoints.steps().is_empty());
    found.next().ok_or_else(|| no_checkpoint(path))
}

fn no_checkpoint(path: &Path) -> Error {
    error!(NotFound, "there is no checkpoint at {}", path.display())
        .hint("--resume takes auto, a folder such as my-adapter.amv/, or one step-000123/ in its checkpoints/")
}

/// Puts the tensors of `checkpoint` into `adapter`, which must have the same ones.
pub fn restore(adapter: &Adapter, checkpoint: &Checkpoint) -> Result<()> {
    let tensors = &checkpoint.tensors;
    let mut used = 0;
    adapter.restore(checkpoint.contents.updates, |name, shape| {
        let mut read = |ending: &str| -> Result<Vec<f32>> {
            let name = format!("{name}{ending}");
            match tensors.catalog().get(&name) {
                Some(tensor) if tensor.shape == *shape => {
                    used += 1;
                    tensors.weight(&name)?.to_f32()
                }
                Some(tensor) => Err(error!(
                    BadAdapter,
                    "{}: {name} is {}, this run needs {shape}",
                    checkpoint.directory.display(),
                    tensor.shape
                )),
                None => Ok(Vec::new()),
            }
        };
        Ok(ParameterState {
            values: read("")?,
            first: read(FIRST)?,
            second: read(SECOND)?,
        })
    })?;
    match tensors.tensor_names().nth(used) {
        None => Ok(()),
        Some(_) => Err(error!(
            BadAdapter,
            "{} has {} tensors, of which this run knows {used}",
            checkpoint.directory.display(),
            tensors.tensor_names().count()
        )),
    }
}

/// What the names of moments end with.
pub const FIRST: &str = ".first_moment";
pub const SECOND: &str = ".second_moment";

fn warn(log: &Log, code: &'static str, message: String) {
    log.event(&Event::Warning { code, message });
}
