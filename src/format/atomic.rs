//! Files that are whole or absent: written beside their place, flushed to the disk, then renamed into it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error;
use crate::error::{Error, Result};
use crate::format::leftovers::claim;

/// Writes the file at `path` through `fill`. A file that is there already stays until the new one is complete.
///
/// Errors: those of `fill`, and those of the file system, with the path. After an error nothing new is left behind.
pub fn write(path: &Path, fill: impl FnOnce(&mut Output) -> Result<()>) -> Result<()> {
    let opened = temporary_name(|name| {
        let temporary = path.with_file_name(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary)?;
        let claimed = claim(&temporary)?;
        Ok(claimed.map(|lock| (temporary, file, lock)))
    });
    let (temporary, file, _lock) = opened.map_err(|cause| Error::file("write", path, &cause))?;
    let mut guard = RemoveOnDrop(Some(&temporary));
    let mut output = Output {
        writer: BufWriter::with_capacity(1 << 20, file),
        path: path.into(),
    };
    fill(&mut output)?;
    output.finish()?;
    fs::rename(&temporary, path).map_err(|cause| {
        error!(
            Io,
            "cannot move the finished file to {}: {cause}",
            path.display()
        )
        .hint("choose a place on a file system that can rename files, such as the home directory")
    })?;
    guard.0 = None;
    sync_directory(path)
}

/// Writes `bytes` as the whole file at `path`; see [`write`].
pub fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    write(path, |output| output.bytes(bytes))
}

/// What `make` makes of the first temporary name that is free.
///
/// The name is short and of its own, so that a long name or a second writer cannot get in the way. One that is taken was
/// left by a killed process that had the same id, and one that `make` answers with none is just removed by somebody else.
pub(super) fn temporary_name<T>(
    mut make: impl FnMut(&str) -> io::Result<Option<T>>,
) -> io::Result<T> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        match make(&format!(".amv-{}-{count}.tmp", process::id())) {
            Ok(Some(made)) => return Ok(made),
            Ok(None) => (),
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => (),
            Err(cause) => return Err(cause),
        }
    }
}

/// The file that [`write`] fills. It is also an [`io::Write`], for serializers.
pub struct Output {
    writer: BufWriter<File>,
    path: PathBuf,
}

impl Output {
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.writer.write_all(bytes);
        written.map_err(|cause| Error::file("write", &self.path, &cause))
    }

    fn finish(self) -> Result<()> {
        let Output { writer, path } = self;
        let file = writer.into_inner().map_err(|error| error.into_error());
        file.and_then(|file| file.sync_all())
            .map_err(|cause| Error::file("write", &path, &cause))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Removes the unfinished file when writing ends early, by an error or a panic.
struct RemoveOnDrop<'a>(Option<&'a Path>);

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            // Nothing can be done about a failure, and the error that brought us here matters more.
            let _ = fs::remove_file(path);
        }
    }
}

/// Makes the rename last through a power cut, where the file system can do that for directories.
pub(super) fn sync_directory(path: &Path) -> Result<()> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    match File::open(directory).and_then(|file| file.sync_all()) {
        Ok(()) => Ok(()),
        // FUSE mounts and Android's shared storage refuse this; the file itself is complete and on the disk.
        Err(cause)
            if matches!(
                cause.kind(),
                io::ErrorKind::InvalidInput
                    | io::ErrorKind::Unsupported
                    | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(())
        }
        Err(cause) => Err(Error::file("write", path, &cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_file_replaces_an_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_bytes(&path, b"old and longer").unwrap();
        write(&path, |output| {
            output.bytes(b"n")?;
            write!(output, "ew").map_err(|cause| Error::file("write", Path::new("a"), &cause))
        })
        .unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn an_error_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_bytes(&path, b"old").unwrap();
        let failed = write(&path, |output| {
            output.bytes(b"half")?;
            Err(error!(NonFinite, "stop"))
        });
        assert_eq!(failed.unwrap_err().message, "stop");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn a_place_that_cannot_be_taken_is_named_and_left_clean() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        let error = write_bytes(&taken, b"x").unwrap_err();
        assert!(error.message.contains(&*taken.to_string_lossy()), "{error}");
        assert_eq!(names(folder.path()), ["taken"]);

        let error = write_bytes(&folder.path().join("absent/x"), b"x").unwrap_err();
        assert_eq!(error.code, crate::error::Code::NotFound);
        assert!(error.message.contains("absent/x"), "{error}");
    }

    #[test]
    fn a_panic_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let panicked = std::panic::catch_unwind(|| write(&path, |_| panic!("on purpose")));
        assert!(panicked.is_err());
        assert!(names(folder.path()).is_empty());
    }
}
