//! A folder of data files, at any depth, in the order of their paths.

use std::path::Path;

use super::file::{self, STRUCTURED, TEXT};
use super::{FORMATS, Reading};
use crate::error;
use crate::error::{Error, Result};

/// Deeper than any collection of texts; a loop of links would have no end.
const DEEPEST: usize = 32;

/// Reads every data file below `folder`. Hidden files are left alone; others that hold no data are noted.
pub fn read(folder: &Path, reading: &mut Reading) -> Result<()> {
    read_below(folder, folder, 0, reading)
}

fn read_below(root: &Path, folder: &Path, depth: usize, reading: &mut Reading) -> Result<()> {
    if depth > DEEPEST {
        return Err(error!(
            BadData,
            "{} is more than {DEEPEST} folders deep",
            folder.display()
        )
        .hint("links that lead back to a folder above make no end; remove them"));
    }
    let failed = |cause| Error::file("read", folder, &cause);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    for path in paths {
        let inner = path.strip_prefix(root).unwrap_or(&path);
        let place = inner.display().to_string();
        if file::name(&path).starts_with('.') {
            continue;
        }
        let extension = file::extension(&path);
        if path.is_dir() {
            read_below(root, &path, depth + 1, reading)?;
        } else if TEXT[1..].contains(&extension.as_str())
            || STRUCTURED.contains(&extension.as_str())
        {
            file::read(&path, &place, reading)?;
        } else {
            reading.records.passed_over.push(place);
        }
    }
    if depth == 0 && reading.records.records.is_empty() && reading.bad.is_empty() {
        let seen = reading.records.passed_over.first();
        if let (Some(first), true) = (seen, reading.records.skipped.is_empty()) {
            return Err(error!(
                BadData,
                "{} holds no training data, only files such as {first}",
                root.display()
            )
            .hint(format!("data can be {FORMATS}")));
        }
    }
    Ok(())
}
