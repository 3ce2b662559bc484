//! A run on disk, to go on from: `step-000123/` with the tensors and, written last, a manifest with their size and hash.
//! Nothing here knows what is trained.

mod manifest;
mod store;

pub use manifest::{Contents, Identity};
pub use store::Checkpoints;

use std::fs;
use std::path::{Path, PathBuf};

use crate::error;
use crate::error::{Error, Result};
use crate::format::digest;
use crate::format::safetensors::{Safetensors, Tensors, write_f32};
use crate::format::{atomic, fault};
use manifest::{FileRecord, Manifest};

const MANIFEST: &str = "manifest.json";
const TENSORS: &str = "state.safetensors";

/// A checkpoint that was read and found whole.
pub struct Checkpoint {
    pub directory: PathBuf,
    pub contents: Contents,
    pub tensors: Safetensors,
}

impl Checkpoint {
    /// Reads `directory` and compares every file with the manifest. Files are read, not mapped: shared storage of phones
    /// may not allow that.
    ///
    /// Errors: `NOT_FOUND` for what is no checkpoint, `IO` for one that is damaged or was written by a later version.
    pub fn read(directory: &Path) -> Result<Checkpoint> {
        let manifest = Manifest::read(&directory.join(MANIFEST))?;
        let path = directory.join(TENSORS);
        let damaged = |what: String| error!(Io, "{} is damaged: {what}", directory.display());
        let Some(record) = manifest.files.get(TENSORS) else {
            return Err(damaged(format!("its manifest does not name {TENSORS}")));
        };
        let content = fs::read(&path).map_err(|cause| Error::file("read", &path, &cause))?;
        let found = FileRecord::of(&content);
        if found != *record {
            return Err(damaged(format!(
                "{TENSORS} has {} bytes and SHA-256 {:.12}, not {} and {:.12}",
                found.bytes, found.sha256, record.bytes, record.sha256
            )));
        }
        Ok(Checkpoint {
            directory: directory.to_owned(),
            contents: manifest.contents,
            tensors: Safetensors::of_bytes(&path, &content)?,
        })
    }

    /// What the manifest of `directory` says; its tensors are not looked at.
    pub fn contents(directory: &Path) -> Result<Contents> {
        Ok(Manifest::read(&directory.join(MANIFEST))?.contents)
    }

    /// Whether `directory` claims to be one; [`Checkpoint::read`] finds out.
    pub fn is_at(directory: &Path) -> bool {
        directory.join(MANIFEST).is_file()
    }
}

/// Writes a checkpoint into the empty `directory`, the manifest last, all of it flushed to the disk.
fn write(directory: &Path, contents: &Contents, tensors: &Tensors) -> Result<()> {
    let path = directory.join(TENSORS);
    write_f32(&path, tensors)?;
    fault::point("after the tensors of a checkpoint");
    let about = fs::metadata(&path).map_err(|cause| Error::file("read", &path, &cause))?;
    let record = FileRecord {
        bytes: about.len(),
        sha256: digest::file(&path)?,
    };
    let manifest = Manifest::new(contents, TENSORS, record);
    atomic::write_bytes(&directory.join(MANIFEST), &manifest.json()?)?;
    fault::point("after the manifest of a checkpoint");
    Ok(())
}
