//! SHA-256 of model files: what names a base model in an adapter's sidecar.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc;
use std::{fmt::Write, io, thread};

use sha2::{Digest, Sha256};

use crate::error;
use crate::error::{Error, Result};

/// One buffer is hashed while the next is read.
const BUFFER_BYTES: usize = 1 << 20;
const BUFFERS: usize = 3;
/// What hashing a file occupies: its buffers, and the one that is read into.
pub const HASHING_BYTES: usize = (BUFFERS + 1) * BUFFER_BYTES;

/// The SHA-256 of a model's weight files, in lower-case hexadecimal.
///
/// Of one file it is that of its content. Of several it is that of the lines `name sha256`, each ended by a newline and
/// sorted by name, where `name` is the file's name without its directory: a model keeps its hash when it is moved.
pub fn model(files: &[&Path]) -> Result<String> {
    if let [file] = files {
        return self::file(file);
    }
    let mut lines = Vec::new();
    for path in files {
        let Some(name) = path.file_name() else {
            return Err(error!(Internal, "{} names no file", path.display()));
        };
        lines.push(format!("{} {}\n", name.display(), file(path)?));
    }
    lines.sort();
    Ok(bytes(lines.concat().as_bytes()))
}

/// The SHA-256 of `content`, in lower-case hexadecimal.
pub fn bytes(content: &[u8]) -> String {
    hexadecimal(&Sha256::digest(content))
}

/// The SHA-256 of the file at `path`, in lower-case hexadecimal. Three megabytes of memory, whatever its size.
pub fn file(path: &Path) -> Result<String> {
    let failed = |cause: io::Error| Error::file("read", path, &cause);
    let mut file = File::open(path).map_err(failed)?;
    let (full, filled) = mpsc::sync_channel::<io::Result<Vec<u8>>>(BUFFERS);
    let (empty, emptied) = mpsc::sync_channel(BUFFERS);
    for _ in 0..BUFFERS {
        // The channel has room for all of them.
        let _ = empty.send(Vec::with_capacity(BUFFER_BYTES));
    }
    thread::scope(|scope| {
        scope.spawn(move || {
            // Ends at the end of the file, after an error, or when the hash has stopped listening.
            while let Ok(buffer) = emptied.recv() {
                let read = fill(&mut file, buffer);
                let last = read.as_ref().map_or(true, |buffer| buffer.is_empty());
                if full.send(read).is_err() || last {
                    break;
                }
            }
        });
        let mut hash = Sha256::new();
        while let Ok(read) = filled.recv() {
            let buffer = read.map_err(failed)?;
            hash.update(&buffer);
            let _ = empty.send(buffer);
        }
        Ok(hexadecimal(&hash.finalize()))
    })
}

/// The next part of the file; empty at its end.
fn fill(file: &mut File, mut buffer: Vec<u8>) -> io::Result<Vec<u8>> {
    buffer.clear();
    file.take(BUFFER_BYTES as u64).read_to_end(&mut buffer)?;
    Ok(buffer)
}

/// Two lower-case digits for each byte.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// FIPS 180-4 examples: "abc", and a million times "a" (published with the standard).
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const MILLION: &str = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

    #[test]
    fn published_examples_come_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "abc").unwrap();
        assert_eq!(file(&path).unwrap(), ABC);
        fs::write(&path, "a".repeat(1_000_000)).unwrap();
        assert_eq!(file(&path).unwrap(), MILLION);
        assert_eq!(model(&[&path]).unwrap(), MILLION);
    }

    #[test]
    fn files_of_many_buffers_hash_like_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for size in [0, BUFFER_BYTES, 5 * BUFFER_BYTES + 7] {
            let content: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            fs::write(&path, &content).unwrap();
            assert_eq!(file(&path).unwrap(), bytes(&content), "{size} bytes");
        }
    }

    #[test]
    fn several_files_hash_as_sorted_lines() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        fs::write(&one, "a".repeat(1_000_000)).unwrap();
        fs::write(&two, "abc").unwrap();
        let expected = bytes(format!("one {MILLION}\ntwo {ABC}\n").as_bytes());
        assert_eq!(model(&[&two, &one]).unwrap(), expected);
    }

    #[test]
    fn an_unreadable_file_is_named() {
        let error = file(Path::new("/absent")).unwrap_err();
        assert!(error.message.starts_with("cannot read /absent"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        assert!(file(folder.path()).is_err());
    }
}
