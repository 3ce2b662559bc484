//! The folder `<output>.amv` of a run: its metrics, and the lock that keeps a second run off the same output.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use crate::backend::try_lock;
use crate::error;
use crate::error::{Error, Result};
use crate::export::Output;
use crate::format::clean;
use crate::run::log::Log;
use crate::train::checkpoint::Checkpoints;
use crate::train::{Event, Listener};

/// An output that belongs to this run until it is dropped.
pub struct Workspace {
    dir: PathBuf,
    /// The system drops the locks when the files are closed, however the process ends.
    locks: Vec<File>,
    /// The output's directory, when it was made for this run.
    made: Option<PathBuf>,
}

impl Drop for Workspace {
    /// A run that wrote nothing leaves no empty directory.
    fn drop(&mut self) {
        if let Some(made) = &self.made {
            // Fails, as it should, when something is in it.
            let _ = fs::remove_dir(made);
        }
    }
}

impl Workspace {
    /// Refused while another run has the output; makes nothing.
    pub fn refuse_taken(output: &Output) -> Result<()> {
        match File::open(output.work_directory().join("lock")) {
            Ok(file) => match try_lock(&file) {
                Ok(false) => Err(taken(output)),
                _ => Ok(()),
            },
            Err(_) => Ok(()),
        }
    }

    /// Makes the folder and locks it, and removes what killed runs left; refused while another run has it.
    ///
    /// `d/` and `d/adapter_model.safetensors` have files in common and folders of their own, so both also lock the
    /// directory `d`.
    pub fn open(output: &Output, log: &Log) -> Result<Workspace> {
        let dir = output.work_directory();
        fs::create_dir_all(&dir).map_err(|cause| Error::file("make", &dir, &cause))?;
        let path = dir.join("lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = file.map_err(|cause| Error::file("write", &path, &cause))?;
        lock(&file, &path, output, log)?;
        let mut workspace = Workspace {
            dir,
            locks: vec![file],
            made: None,
        };
        let directory = output.directory();
        if output.shares_directory() {
            if !directory.exists() {
                fs::create_dir_all(&directory)
                    .map_err(|cause| Error::file("make", &directory, &cause))?;
                workspace.made = Some(directory.clone());
            }
            let file =
                File::open(&directory).map_err(|cause| Error::file("read", &directory, &cause))?;
            lock(&file, &directory, output, log)?;
            workspace.locks.push(file);
        }
        clean(&directory);
        clean(&workspace.dir);
        clean(Self::checkpoints(output).directory());
        Ok(workspace)
    }

    /// Where the checkpoints of the runs that write to `output` are.
    pub fn checkpoints(output: &Output) -> Checkpoints {
        Checkpoints::new(output.work_directory().join("checkpoints"))
    }

    /// The run as a page.
    pub fn report(&self) -> PathBuf {
        self.dir.join("report.html")
    }

    /// Every event of the run, one JSON object a line.
    pub fn metrics(&self) -> PathBuf {
        self.dir.join("metrics.jsonl")
    }
}

/// Some shared storage has no locks: a run is worth more than its protection from a second one.
fn lock(file: &File, path: &Path, output: &Output, log: &Log) -> Result<()> {
    match try_lock(file) {
        Ok(true) => Ok(()),
        Ok(false) => Err(taken(output)),
        Err(cause) => {
            let message = format!(
                "{} cannot be locked ({cause}): start no second run with this output",
                path.display()
            );
            let code = "NO_LOCK";
            log.event(&Event::Warning { code, message });
            Ok(())
        }
    }
}

fn taken(output: &Output) -> Error {
    let peft = output.peft();
    error!(Usage, "another run is writing to {}", peft.display())
        .hint("wait for it, stop it, or choose another --output")
}
