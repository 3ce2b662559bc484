//! The manifest of a checkpoint: what it continues, how far it came, and which files it has.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error;
use crate::error::{Error, Result};
use crate::format::digest;
use crate::train::Progress;

const FORMAT: &str = "amv-train-checkpoint";
const VERSION: u32 = 1;

/// What must be the same for a run to go on, as text by name: hashes of base and data, and every setting that decides
/// what is learned.
pub type Identity = BTreeMap<String, String>;

/// Everything of a checkpoint but its tensors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contents {
    pub progress: Progress,
    /// The length of the run, which the learning rate follows.
    pub total_steps: usize,
    /// Updates of the optimizer, which skipped steps do not count.
    pub updates: u64,
    pub run: Identity,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub bytes: u64,
    pub sha256: String,
}

impl FileRecord {
    pub fn of(content: &[u8]) -> FileRecord {
        FileRecord {
            bytes: content.len() as u64,
            sha256: digest::bytes(content),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    format: String,
    format_version: u32,
    #[serde(flatten)]
    pub contents: Contents,
    pub files: BTreeMap<String, FileRecord>,
    created_by: String,
}

impl Manifest {
    pub fn new(contents: &Contents, name: &str, record: FileRecord) -> Manifest {
        Manifest {
            format: FORMAT.to_owned(),
            format_version: VERSION,
            contents: contents.clone(),
            files: BTreeMap::from([(name.to_owned(), record)]),
            created_by: concat!("amv-train ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }

    pub fn json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
            .map_err(|cause| error!(Internal, "the manifest of a checkpoint: {cause}"))
    }

    pub fn read(path: &Path) -> Result<Manifest> {
        let content = fs::read(path).map_err(|cause| Error::file("read", path, &cause))?;
        let version: Version = serde_json::from_slice(&content)
            .map_err(|cause| error!(Io, "{} is damaged: {cause}", path.display()))?;
        if version.format != FORMAT || version.format_version != VERSION {
            return Err(error!(
                Io,
                "{} is {} version {}; this version of amv-train reads {FORMAT} version {VERSION}",
                path.display(),
                version.format,
                version.format_version
            ));
        }
        serde_json::from_slice(&content)
            .map_err(|cause| error!(Io, "{} is damaged: {cause}", path.display()))
    }
}

#[derive(Deserialize)]
struct Version {
    format: String,
    format_version: u32,
}
