//! Unfinished files and directories: each is locked by the process that fills it, so that those of killed processes can be
//! told and removed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::backend::try_lock;

/// The lock of an unfinished file or directory at `path`, as long as the value lives; none when somebody is just removing
/// it. Where the file system has no locks nobody can take it for a leftover either.
pub(super) fn claim(path: &Path) -> io::Result<Option<File>> {
    let file = File::open(path)?;
    if let Ok(false) = try_lock(&file) {
        return Ok(None);
    }
    let there = fs::metadata(path).ok();
    let same = there.is_some_and(|there| there.ino() == file.metadata().map_or(0, |own| own.ino()));
    Ok(same.then_some(file))
}

/// Removes from `directory` what processes that were killed left unfinished there. What cannot be removed stays.
pub fn clean(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_ours(&entry.file_name().to_string_lossy())) {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if !kind.is_dir() && !kind.is_file() {
            continue;
        }
        let Ok(file) = File::open(&path) else {
            continue;
        };
        if !try_lock(&file).is_ok_and(|locked| locked) {
            continue;
        }
        let _ = match kind.is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
    }
}

/// `.amv-PROCESS-NUMBER.tmp`
fn is_ours(name: &str) -> bool {
    let numbers = name
        .strip_prefix(".amv-")
        .and_then(|rest| rest.strip_suffix(".tmp"))
        .and_then(|rest| rest.split_once('-'));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(process, number)| digits(process) && digits(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Staging;

    #[test]
    fn what_nobody_fills_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let living = Staging::inside(folder.path()).unwrap();
        fs::write(place(".amv-4000000-0.tmp"), "left").unwrap();
        fs::create_dir(place(".amv-1-7.tmp")).unwrap();
        fs::write(place(".amv-1-7.tmp/state"), "left").unwrap();
        let others = [
            ".amv-x-1.tmp",
            ".amv-1.tmp",
            "amv-1-1.tmp",
            ".amv-1-1.tmp.txt",
        ];
        for other in others {
            fs::write(place(other), "not ours").unwrap();
        }
        std::os::unix::fs::symlink("/", place(".amv-1-8.tmp")).unwrap();
        clean(folder.path());
        assert!(living.directory().is_dir());
        assert!(!place(".amv-4000000-0.tmp").exists() && !place(".amv-1-7.tmp").exists());
        assert!(others.iter().all(|other| place(other).exists()));
        assert!(fs::symlink_metadata(place(".amv-1-8.tmp")).is_ok());
    }
}
