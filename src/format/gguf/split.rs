//! Split models: parts named `x-00001-of-00003.gguf` that say which part they are.
//!
//! Source: llama.cpp, `llama_split_path` and its `split.*` keys; parts are counted from 1 in names and from 0 in `split.no`.

use std::path::{Path, PathBuf};

use super::Metadata;
use crate::bail;
use crate::error;
use crate::error::{Error, Result};

const NUMBER_KEY: &str = "split.no";
const COUNT_KEY: &str = "split.count";
pub(super) const TENSORS_KEY: &str = "split.tensors.count";

/// The paths of all parts of the model that `path` belongs to, in order; none when it is a model of one file.
///
/// Errors: parts that are missing (all are named, up to five), a name that does not follow the pattern.
pub(super) fn parts(path: &Path, metadata: &Metadata) -> Result<Option<Vec<PathBuf>>> {
    let Some(count) = metadata.integer(COUNT_KEY).filter(|&count| count > 1) else {
        return Ok(None);
    };
    let number = metadata.integer(NUMBER_KEY).unwrap_or(0).saturating_add(1);
    let ending = format!("-{number:05}-of-{count:05}.gguf");
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(stem) = name.and_then(|name| name.strip_suffix(&ending)) else {
        return Err(error!(
            BadModel,
            "this is part {number} of {count}, but its name does not end in {ending}"
        )
        .hint("parts of a split model keep their names and lie in one directory"));
    };

    let mut parts = Vec::new();
    let mut missing = Vec::new();
    for number in 1..=count {
        let part = path.with_file_name(format!("{stem}-{number:05}-of-{count:05}.gguf"));
        match part.is_file() {
            true => parts.push(part),
            false => missing.push(part),
        }
        if missing.len() == 5 {
            break;
        }
    }
    if missing.is_empty() {
        return Ok(Some(parts));
    }
    let names: Vec<_> = missing.iter().filter_map(|part| part.file_name()).collect();
    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
    Err(Error::new(
        crate::error::Code::NotFound,
        format!(
            "this is part {number} of {count}; missing beside it: {}",
            names.join(", ")
        ),
    )
    .hint("download all parts into one directory"))
}

/// Checks that a part is the one its name says: part `number` (from 0) of `count`.
pub(super) fn check(metadata: &Metadata, number: usize, count: usize) -> Result<()> {
    let expected = (Some(number as u64), Some(count as u64));
    let said = (metadata.integer(NUMBER_KEY), metadata.integer(COUNT_KEY));
    if said != expected {
        bail!(
            BadModel,
            "the name says part {} of {count}, the file says {NUMBER_KEY} {} and {COUNT_KEY} {}",
            number + 1,
            shown(said.0),
            shown(said.1)
        );
    }
    Ok(())
}

fn shown(value: Option<u64>) -> String {
    value.map_or("nothing".into(), |value| value.to_string())
}
