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

#[cfg(test)]
mod tests {
    use super::super::{GgufFile, Value, write};
    use super::*;
    use crate::backend::Bytes;
    use crate::error::Code;
    use crate::quant::{Format, Weight};
    use crate::shape::Shape;
    use std::fs;

    /// Part `number` (from 1) of `count`, with one tensor `t<number>` that holds its number.
    fn write_part(folder: &Path, number: u16, count: u16, total: i32) -> PathBuf {
        let mut metadata = Metadata::new();
        metadata.set("part", Value::U16(number));
        metadata.set(NUMBER_KEY, Value::U16(number - 1));
        metadata.set(COUNT_KEY, Value::U16(count));
        metadata.set(TENSORS_KEY, Value::I32(total));
        let values = Bytes::from_f32(vec![number.into()]);
        let weight = Weight::new(Format::F32, Shape::from([1]), values).unwrap();
        let path = folder.join(format!("m-{number:05}-of-{count:05}.gguf"));
        write(&path, &metadata, &[(format!("t{number}"), weight)]).unwrap();
        path
    }

    fn error(path: &Path) -> Error {
        GgufFile::open(path).err().expect("opening fails")
    }

    #[test]
    fn any_part_opens_the_whole_model() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [1, 2, 3].map(|number| write_part(folder.path(), number, 3, 3));
        for path in &paths {
            let model = GgufFile::open(path).unwrap();
            assert_eq!(model.metadata().integer("part"), Some(1));
            assert_eq!(model.catalog().paths(), paths.each_ref());
            for (name, value) in [("t1", 1.0), ("t2", 2.0), ("t3", 3.0)] {
                assert_eq!(model.weight(name).unwrap().to_f32().unwrap(), [value]);
            }
        }
    }

    #[test]
    fn missing_parts_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = write_part(folder.path(), 2, 3, 3);
        let error = error(&path);
        assert_eq!(error.code, Code::NotFound);
        let expected =
            "part 2 of 3; missing beside it: m-00001-of-00003.gguf, m-00003-of-00003.gguf";
        assert!(error.message.ends_with(expected), "{error}");
    }

    #[test]
    fn parts_that_do_not_belong_together_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let one = write_part(folder.path(), 1, 2, 5);
        let two = write_part(folder.path(), 2, 2, 5);
        assert!(
            error(&one)
                .message
                .ends_with("hold 2 tensors, split.tensors.count says 5")
        );

        fs::copy(&one, &two).unwrap();
        let expected = "the name says part 2 of 2, the file says split.no 0 and split.count 2";
        assert!(error(&one).message.ends_with(expected));

        let renamed = folder.path().join("renamed.gguf");
        fs::rename(&one, &renamed).unwrap();
        let expected = "part 1 of 2, but its name does not end in -00001-of-00002.gguf";
        assert!(error(&renamed).message.ends_with(expected));
    }
}
