//! Opens a model file for reading: checks that it is one, maps it, and recognises what people download by mistake.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use crate::backend::Bytes;
use crate::error;
use crate::error::{Error, Result};

/// What to do about a file that ends too early or contradicts itself.
pub(super) const DAMAGED: &str =
    "the file is damaged or was not downloaded completely; download it again";

/// The whole file at `path` as a read-only mapping: pages are loaded when they are touched.
///
/// Errors: a missing file, a directory, a pipe or device, an empty file. The file must not shrink while it is mapped:
/// reading past its new end would end the process, as with every mapping.
pub(super) fn open(path: &Path) -> Result<Bytes> {
    let about = fs::metadata(path).map_err(|cause| Error::file("open", path, &cause))?;
    if about.is_dir() {
        return Err(
            error!(BadModel, "{} is a directory, not a file", path.display())
                .hint("name the model file inside it"),
        );
    }
    // Opening a pipe would wait for a writer that may never come.
    if !about.is_file() {
        return Err(error!(BadModel, "{} is not a regular file", path.display()));
    }
    if about.len() == 0 {
        return Err(error!(BadModel, "{} is empty", path.display()).hint(DAMAGED));
    }
    let file = File::open(path).map_err(|cause| Error::file("open", path, &cause))?;
    // Safety: the mapping is private and read-only; that nobody truncates a model in use is the contract above.
    let map = unsafe { Mmap::map(&file) }.map_err(|cause| Error::file("map", path, &cause))?;
    Ok(Bytes::mapped(Arc::new(map)))
}

/// What a file that is no model seems to be, and how to get the model; none when nothing is recognised.
pub(super) fn mistaken_for(file: &[u8]) -> Option<(&'static str, &'static str)> {
    let text = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
    let start: Vec<u8> = text
        .trim_ascii_start()
        .iter()
        .take(64)
        .map(u8::to_ascii_lowercase)
        .collect();
    let (_, what, hint) = MISTAKES.iter().find(|(mark, ..)| start.starts_with(mark))?;
    Some((what, hint))
}

/// First bytes in lower case, what they mean, what to do.
const MISTAKES: [(&[u8], &str, &str); 8] = [
    (
        b"version https://git-lfs",
        "a Git LFS pointer",
        "run `git lfs pull` where it was cloned, or download the file itself",
    ),
    (b"<!doctype", "a web page", WEB_PAGE),
    (b"<html", "a web page", WEB_PAGE),
    (b"<?xml", "an XML answer of a server", WEB_PAGE),
    (b"gguf", "a GGUF file", "give it a name that ends in .gguf"),
    (b"tjgg", "a GGML file from before GGUF", OLD_GGML),
    (b"lmgg", "a GGML file from before GGUF", OLD_GGML),
    (
        b"pk\x03\x04",
        "a zip archive, as PyTorch writes .bin and .pt files",
        "save the model as safetensors",
    ),
];

const WEB_PAGE: &str = "the download gave an error or login page; download the file itself (on the hub: the /resolve/ address)";
const OLD_GGML: &str = "convert the original model to GGUF again";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_pages_and_lfs_pointers_are_recognised() {
        let page = b"\xef\xbb\xbf\n <!DOCTYPE html><html>";
        assert_eq!(mistaken_for(page).unwrap().0, "a web page");
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00";
        assert_eq!(mistaken_for(pointer).unwrap().0, "a Git LFS pointer");
        assert!(mistaken_for(b"GG").is_none());
        assert!(mistaken_for(b"").is_none());
    }

    #[test]
    fn only_regular_files_with_content_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| match open(path) {
            Ok(_) => panic!("{} was opened", path.display()),
            Err(error) => error.message,
        };
        assert!(message(folder.path()).ends_with("is a directory, not a file"));
        assert!(message(Path::new("/dev/null")).ends_with("is not a regular file"));
        let empty = folder.path().join("empty.gguf");
        File::create(&empty).unwrap();
        assert!(message(&empty).ends_with("is empty"));
        let missing = open(&folder.path().join("missing")).err().unwrap();
        assert_eq!(missing.code, crate::error::Code::NotFound);
    }
}
