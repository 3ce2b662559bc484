//! Whether the disk has room for what a run writes, before it starts.

use std::fs;
use std::path::Path;

use crate::backend::disk;
use crate::error;
use crate::error::Result;

/// For metrics, the folder's own entries, and what others write meanwhile.
const SPARE: u64 = 4 << 20;

/// What a run writes, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    pub checkpoint: u64,
    /// Checkpoints that exist at once: those that are kept, and the one that is written.
    pub checkpoints: u64,
    /// The files of the adapter.
    pub adapter: u64,
}

impl Room {
    fn bytes(self) -> u64 {
        self.checkpoint * self.checkpoints + self.adapter + SPARE
    }

    /// Refuses to start where it does not fit. What `checkpoints` has now is room, too: its files are replaced.
    pub fn check(self, output: &Path, checkpoints: &Path) -> Result<()> {
        match disk::free_bytes(output) {
            Ok(Some(free)) => self.check_free(free + size(checkpoints), output),
            // A file system that does not say may have room.
            _ => Ok(()),
        }
    }

    fn check_free(self, free: u64, place: &Path) -> Result<()> {
        let megabytes = |bytes: u64| bytes.div_ceil(1 << 20);
        let need = self.bytes();
        if need <= free {
            return Ok(());
        }
        Err(error!(
            Io,
            "not enough room: this run writes up to {} MB ({} checkpoints of {} MB, an adapter of {} MB), and {} has {} MB",
            megabytes(need),
            self.checkpoints,
            megabytes(self.checkpoint),
            megabytes(self.adapter),
            place.display(),
            free >> 20
        )
        .hint("free some, choose another --output, or lower --keep or --rank"))
    }
}

/// Bytes of the files below `directory`.
fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => size(&entry.path()),
            Ok(about) => about.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_does_not_fit_is_refused_with_its_parts() {
        let room = Room {
            checkpoint: 12 << 20,
            checkpoints: 3,
            adapter: 8 << 20,
        };
        let place = Path::new("out");
        room.check_free(48 << 20, place).unwrap();
        let error = room.check_free((48 << 20) - 1, place).unwrap_err();
        assert_eq!(
            error.message,
            "not enough room: this run writes up to 48 MB (3 checkpoints of 12 MB, an adapter of 8 MB), and out has 47 MB"
        );
        assert!(error.hint.unwrap().contains("--keep"));
    }

    #[test]
    fn what_is_there_counts_with_its_folders() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("step-000001")).unwrap();
        fs::write(folder.path().join("step-000001/a"), [0; 1000]).unwrap();
        fs::write(folder.path().join("b"), [0; 24]).unwrap();
        assert_eq!(size(folder.path()), 1024);
        assert_eq!(size(Path::new("/absent")), 0);
    }
}
