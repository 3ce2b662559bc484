//! The header of one GGUF file: version, metadata, and where each tensor lies.
//!
//! Source: ggml-org/ggml, `docs/gguf.md`; the checks are those of GGML's own reader and a few more.

use std::collections::HashSet;

use super::cursor::Cursor;
use super::description::Description;
use super::{Metadata, Value, align};
use crate::bail;
use crate::error;
use crate::error::{Error, Result};
use crate::format::Tensor;
use crate::format::mapping;

pub(super) const MAGIC: &[u8; 4] = b"GGUF";
const ALIGNMENT_KEY: &str = "general.alignment";
const DEFAULT_ALIGNMENT: usize = 32;

/// The least an entry takes in the file: key length, type and one byte; name length, axes, type and offset.
const ENTRY_BYTES: usize = 8 + 4 + 1;
const TENSOR_BYTES: usize = 8 + 4 + 4 + 8;

pub(super) struct Header {
    pub metadata: Metadata,
    pub tensors: Vec<Tensor>,
}

/// Reads the header of `file`, which is file number `part` of its model, and checks that all data it names is there.
pub(super) fn read(file: &[u8], part: usize) -> Result<Header> {
    let mut cursor = Cursor::new(file);
    check_magic(file)?;
    cursor.take(MAGIC.len())?;
    check_version(cursor.u32()?)?;
    let tensor_count = cursor.count("tensors", TENSOR_BYTES)?;
    let entry_count = cursor.count("metadata entries", ENTRY_BYTES)?;
    let metadata = read_metadata(&mut cursor, entry_count)?;
    let alignment = alignment(&metadata)?;

    // The data starts after the last description. Walking them once without keeping any finds that place, and that the
    // count is true, before memory is reserved.
    let mut ahead = cursor.clone();
    for _ in 0..tensor_count {
        Description::read(&mut ahead)?;
    }
    let data = align(ahead.position(), alignment)?;
    let mut tensors = Vec::with_capacity(tensor_count);
    for _ in 0..tensor_count {
        let tensor = Description::read(&mut cursor)?;
        tensors.push(tensor.place(file.len(), data, alignment, part)?);
    }
    Ok(Header { metadata, tensors })
}

fn check_magic(file: &[u8]) -> Result<()> {
    if file.starts_with(MAGIC) {
        return Ok(());
    }
    if let Some((what, hint)) = mapping::mistaken_for(file) {
        return Err(error!(BadModel, "this is {what}, not a GGUF model").hint(hint));
    }
    let start = &file[..file.len().min(MAGIC.len())];
    bail!(
        BadModel,
        "this is not a GGUF file: it starts with \"{}\" instead of \"GGUF\"",
        start.escape_ascii()
    )
}

fn check_version(version: u32) -> Result<()> {
    match version {
        2 | 3 => Ok(()),
        1 => Err(error!(
            UnsupportedFormat,
            "GGUF version 1 is not supported, versions 2 and 3 are"
        )
        .hint("convert the original model to GGUF again")),
        // The version of a big-endian file, read as little-endian, has its digits in the upper half.
        _ if version & 0xffff == 0 && version != 0 => Err(error!(
            UnsupportedFormat,
            "this GGUF file is big-endian, which is not supported"
        )
        .hint("use the little-endian file of the same model")),
        _ => bail!(
            UnsupportedFormat,
            "GGUF version {version} is not supported, versions 2 and 3 are"
        ),
    }
}

fn read_metadata(cursor: &mut Cursor<'_>, count: usize) -> Result<Metadata> {
    let mut metadata = Metadata::new();
    let mut keys = HashSet::new();
    for _ in 0..count {
        let key = cursor.name("a metadata key")?;
        if !keys.insert(key) {
            bail!(BadModel, "metadata key {key} is there twice");
        }
        let kind = cursor.u32()?;
        let value = cursor
            .value(kind)
            .map_err(|error| within(&format!("metadata {key}"), error))?;
        metadata.append(key.to_owned(), value);
    }
    Ok(metadata)
}

/// What offsets of tensors are multiples of, in bytes.
pub(super) fn alignment(metadata: &Metadata) -> Result<usize> {
    let Some(value) = metadata.get(ALIGNMENT_KEY) else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    match value {
        Value::U32(alignment) if alignment.is_power_of_two() => Ok(*alignment as usize),
        Value::U32(alignment) => bail!(
            BadModel,
            "{ALIGNMENT_KEY} is {alignment}, which is not a power of two"
        ),
        _ => bail!(BadModel, "{ALIGNMENT_KEY} is not of type u32"),
    }
}

/// Says which entry of the header an error is about.
pub(super) fn within(what: &str, mut error: Error) -> Error {
    error.message = format!("{what}: {}", error.message);
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    /// A tensor entry: name, axes as in the file (contiguous first), type, offset.
    type Entry<'a> = (&'a str, &'a [u64], u32, u64);

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    }

    fn start(version: u32, tensors: u64, entries: u64) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend(version.to_le_bytes());
        file.extend(tensors.to_le_bytes());
        file.extend(entries.to_le_bytes());
        file
    }

    /// A file without metadata whose tensor data is `data` zeros.
    fn file(tensors: &[Entry], data: usize) -> Vec<u8> {
        let mut file = start(3, tensors.len() as u64, 0);
        for (name, axes, kind, offset) in tensors {
            file.extend(text(name));
            file.extend((axes.len() as u32).to_le_bytes());
            axes.iter().for_each(|axis| file.extend(axis.to_le_bytes()));
            file.extend(kind.to_le_bytes());
            file.extend(offset.to_le_bytes());
        }
        file.resize(file.len().next_multiple_of(32) + data, 0);
        file
    }

    /// A file of metadata only; `entries` are keys with the type and the bytes of their value.
    fn entries(entries: &[(&str, u32, &[u8])]) -> Vec<u8> {
        let mut file = start(3, 0, entries.len() as u64);
        for (key, kind, value) in entries {
            file.extend(text(key));
            file.extend(kind.to_le_bytes());
            file.extend(*value);
        }
        file
    }

    fn refused(file: &[u8]) -> Error {
        read(file, 0).err().expect("the header is refused")
    }

    fn assert_refused(file: &[u8], message: &str) {
        let error = refused(file);
        assert!(error.message.contains(message), "{error}");
    }

    #[test]
    fn files_of_metadata_only_and_of_nothing_are_valid() {
        assert!(read(&start(3, 0, 0), 0).unwrap().tensors.is_empty());
        assert!(read(&start(2, 0, 0), 0).unwrap().metadata.is_empty());
    }

    #[test]
    fn axes_are_reversed_and_data_is_found() {
        let file = file(&[("a", &[2, 3], 0, 0), ("b", &[32], 8, 32)], 66);
        let tensors = read(&file, 0).unwrap().tensors;
        assert_eq!(tensors[0].shape[..], [3, 2]);
        assert_eq!(tensors[0].bytes(), Some(24));
        assert_eq!(tensors[1].type_name, "Q8_0");
        assert_eq!(tensors[1].bytes(), Some(34));
    }

    #[test]
    fn other_versions_and_byte_orders_are_refused_by_name() {
        assert_refused(&start(1, 0, 0), "GGUF version 1 is not supported");
        assert_refused(&start(4, 0, 0), "GGUF version 4 is not supported");
        assert_refused(&start(0, 0, 0), "GGUF version 0 is not supported");
        assert_refused(&start(3u32.swap_bytes(), 0, 0), "big-endian");
        assert_eq!(refused(&start(1, 0, 0)).code, Code::UnsupportedFormat);
    }

    #[test]
    fn files_that_are_no_gguf_say_what_they_are() {
        assert_refused(
            b"<!DOCTYPE html>\n<title>Sign in</title>",
            "this is a web page",
        );
        let pointer = refused(b"version https://git-lfs.github.com/spec/v1\n");
        assert!(pointer.message.contains("a Git LFS pointer"), "{pointer}");
        assert!(pointer.hint.unwrap().contains("git lfs pull"));
        assert_refused(b"GG", "starts with \"GG\"");
        assert_refused(b"\x1b\xff\0\0rest", r#"starts with "\x1b\xff\x00\x00""#);
        assert_refused(b"GGUF", "the file ends 0 bytes later");
    }

    #[test]
    fn counts_and_lengths_that_cannot_be_are_refused() {
        assert_refused(
            &start(3, 0, u64::MAX),
            "18446744073709551615 metadata entries",
        );
        assert_refused(&start(3, u64::MAX, 0), "18446744073709551615 tensors");
        let mut key = start(3, 0, 1);
        key.extend(u64::MAX.to_le_bytes());
        key.extend([0; 8]);
        assert_refused(&key, "18446744073709551615 bytes of text (at byte 24)");
        let value = u64::MAX.to_le_bytes();
        assert_refused(
            &entries(&[("k", 8, &value)]),
            "metadata k: 18446744073709551615 bytes",
        );
    }

    #[test]
    fn metadata_must_be_unambiguous() {
        let twice = entries(&[("k", 0, &[1]), ("k", 0, &[2])]);
        assert_refused(&twice, "metadata key k is there twice");
        assert_refused(&entries(&[("k", 13, &[0])]), "value type 13 does not exist");
        assert_refused(&entries(&[("", 0, &[0, 0])]), "is 0 bytes long");
    }

    #[test]
    fn the_alignment_must_be_a_power_of_two() {
        let alignment = |kind, value: &[u8]| entries(&[(ALIGNMENT_KEY, kind, value)]);
        assert!(read(&alignment(4, &64u32.to_le_bytes()), 0).is_ok());
        assert!(read(&alignment(4, &(1u32 << 31).to_le_bytes()), 0).is_ok());
        assert_refused(&alignment(4, &[0; 4]), "is 0, which is not a power of two");
        assert_refused(&alignment(4, &48u32.to_le_bytes()), "is 48, which");
        assert_refused(
            &alignment(10, &[32, 0, 0, 0, 0, 0, 0, 0]),
            "is not of type u32",
        );
    }

    #[test]
    fn tensors_that_cannot_be_are_refused() {
        let max = u64::MAX;
        let refused = |tensor: Entry, message| assert_refused(&file(&[tensor], 64), message);
        refused(("a", &[1, 1, 1, 1, 1], 0, 0), "has 5 axes, at most 4");
        refused(
            ("a", &[max, 2], 0, 0),
            "more elements than memory has addresses",
        );
        refused(("a", &[max / 2, 1], 0, 0), "is larger than memory");
        refused(
            ("a", &[1 << 32, 1 << 32], 99, 0),
            "more elements than memory",
        );
        refused(
            ("a", &[31, 32], 8, 0),
            "rows of 31 are not a whole number of Q8_0 blocks of 32",
        );
        refused(
            ("a", &[8], 0, 4),
            "starts at 4, which is not a multiple of 32",
        );
        refused(("a", &[8], 0, max - 31), "past the end of the file");
        refused(("a", &[17], 0, 0), "past the end of the file");
        refused(("a", &[9], 0, 32), "past the end of the file");
    }

    #[test]
    fn tensors_of_unknown_types_are_listed() {
        let listed = file(
            &[("a", &[8], 35, 0), ("b", &[8], 999, 32), ("c", &[], 0, 64)],
            68,
        );
        let tensors = read(&listed, 0).unwrap().tensors;
        assert_eq!((&*tensors[0].type_name, tensors[0].format), ("TQ2_0", None));
        assert_eq!(tensors[1].type_name, "number 999");
        assert_eq!(tensors[2].bytes(), Some(4));
        let outside = file(&[("a", &[8], 35, 256)], 64);
        assert_refused(&outside, "past the end of the file");
    }
}
