//! The folder `<output>.amv` of a run: its metrics, and the lock that keeps a second run off the same output.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::PathBuf;

use crate::error;
use crate::error::{Error, Result};
use crate::export::Output;
use crate::train::checkpoint::Checkpoints;

/// An output that belongs to this run until it is dropped.
pub struct Workspace {
    dir: PathBuf,
    /// The system drops the lock when the file is closed, however the process ends.
    _lock: File,
}

impl Workspace {
    /// Refused while another run has the output; makes nothing.
    pub fn refuse_taken(output: &Output) -> Result<()> {
        match File::open(output.work_directory().join("lock")) {
            Ok(file) => match file.try_lock() {
                Err(TryLockError::WouldBlock) => Err(taken(output)),
                _ => Ok(()),
            },
            Err(_) => Ok(()),
        }
    }

    /// Makes the folder and locks it; refused while another run has it.
    pub fn open(output: &Output) -> Result<Workspace> {
        let dir = output.work_directory();
        fs::create_dir_all(&dir).map_err(|cause| Error::file("make", &dir, &cause))?;
        let path = dir.join("lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = file.map_err(|cause| Error::file("write", &path, &cause))?;
        match file.try_lock() {
            Ok(()) => Ok(Workspace { dir, _lock: file }),
            Err(TryLockError::WouldBlock) => Err(taken(output)),
            Err(TryLockError::Error(cause)) => Err(Error::file("lock", &path, &cause)),
        }
    }

    /// Where the checkpoints of the runs that write to `output` are.
    pub fn checkpoints(output: &Output) -> Checkpoints {
        Checkpoints::new(output.work_directory().join("checkpoints"))
    }

    /// Every event of the run, one JSON object a line.
    pub fn metrics(&self) -> PathBuf {
        self.dir.join("metrics.jsonl")
    }
}

fn taken(output: &Output) -> Error {
    let peft = output.peft();
    error!(Usage, "another run is writing to {}", peft.display())
        .hint("wait for it, stop it, or choose another --output")
}
