//! Writes GGUF version 3: metadata, tensor descriptions, then each tensor's bytes on an aligned offset.

use std::collections::HashSet;
use std::path::Path;

use super::description::MAX_DIMS;
use super::header::{MAGIC, alignment};
use super::{Array, Metadata, Value, align};
use crate::bail;
use crate::error::Result;
use crate::format::catalog::in_file;
use crate::format::{Entry, atomic};
use crate::quant::Weight;

const VERSION: u32 = 3;

/// GGML keeps names in 64 bytes, the last of which is zero.
const MAX_NAME: usize = 63;

/// Writes a GGUF file with these entries and tensors, in this order. Offsets follow `general.alignment` (default 32).
///
/// Errors: a name that is twice there, empty or longer than 63 bytes, more than four axes, and
/// those of [`atomic::write`]; the file is whole or absent.
pub fn write(path: &Path, metadata: &Metadata, tensors: &[(String, Weight)]) -> Result<()> {
    let entries: Vec<Entry> = tensors.iter().map(Entry::of).collect();
    stream(path, metadata, &entries, &mut |number, output| {
        output.bytes(tensors[number].1.bytes().as_u8())
    })
}

/// As [`write`], with tensors that are made while they are written: `each(number, output)` writes the bytes of entry
/// `number`, as many as the entry says.
pub fn stream(
    path: &Path,
    metadata: &Metadata,
    entries: &[Entry],
    each: &mut dyn FnMut(usize, &mut atomic::Output) -> Result<()>,
) -> Result<()> {
    let (header, alignment) = header(metadata, entries).map_err(|error| in_file(path, error))?;
    atomic::write(path, |output| {
        output.bytes(&header)?;
        let padding = vec![0; alignment];
        for (number, entry) in entries.iter().enumerate() {
            each(number, output)?;
            output.bytes(&padding[..align(entry.bytes(), alignment)? - entry.bytes()])?;
        }
        Ok(())
    })
}

/// Everything before the tensor data, padded, and the alignment.
fn header(metadata: &Metadata, entries: &[Entry]) -> Result<(Vec<u8>, usize)> {
    let alignment = alignment(metadata)?;
    let mut bytes = Vec::new();
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    put_count(&mut bytes, entries.len());
    put_count(&mut bytes, metadata.len());
    for (key, value) in metadata.iter() {
        put_string(&mut bytes, key);
        put_value(&mut bytes, value);
    }
    let mut names = HashSet::new();
    let mut offset = 0;
    for entry in entries {
        check(entry)?;
        let Entry {
            name,
            shape,
            format,
        } = entry;
        if !names.insert(name) {
            bail!(Internal, "tensor {name} would be written twice");
        }
        put_string(&mut bytes, name);
        bytes.extend((shape.len() as u32).to_le_bytes());
        // The contiguous axis comes first in the file.
        for &axis in shape.iter().rev() {
            put_count(&mut bytes, axis);
        }
        bytes.extend(format.ggml_id().to_le_bytes());
        put_count(&mut bytes, offset);
        offset = align(offset + entry.bytes(), alignment)?;
    }
    bytes.resize(align(bytes.len(), alignment)?, 0);
    Ok((bytes, alignment))
}

fn check(Entry { name, shape, .. }: &Entry) -> Result<()> {
    if !(1..=MAX_NAME).contains(&name.len()) {
        bail!(
            UnsupportedFormat,
            "the name {name} has {} bytes; GGUF allows 1 to {MAX_NAME}",
            name.len()
        );
    }
    if shape.len() > MAX_DIMS as usize {
        bail!(
            UnsupportedFormat,
            "tensor {name} {shape} has more than {MAX_DIMS} axes, which GGUF cannot hold"
        );
    }
    Ok(())
}

fn put_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend((count as u64).to_le_bytes());
}

fn put_string(bytes: &mut Vec<u8>, text: &str) {
    put_count(bytes, text.len());
    bytes.extend(text.as_bytes());
}

/// The number of the type, then the value.
fn put_value(bytes: &mut Vec<u8>, value: &Value) {
    bytes.extend(value.type_id().to_le_bytes());
    match value {
        Value::U8(number) => bytes.extend(number.to_le_bytes()),
        Value::I8(number) => bytes.extend(number.to_le_bytes()),
        Value::U16(number) => bytes.extend(number.to_le_bytes()),
        Value::I16(number) => bytes.extend(number.to_le_bytes()),
        Value::U32(number) => bytes.extend(number.to_le_bytes()),
        Value::I32(number) => bytes.extend(number.to_le_bytes()),
        Value::F32(number) => bytes.extend(number.to_le_bytes()),
        Value::Bool(truth) => bytes.push(u8::from(*truth)),
        Value::String(text) => put_string(bytes, text),
        Value::Array(array) => put_array(bytes, array),
        Value::U64(number) => bytes.extend(number.to_le_bytes()),
        Value::I64(number) => bytes.extend(number.to_le_bytes()),
        Value::F64(number) => bytes.extend(number.to_le_bytes()),
    }
}

/// The number of the items' type, their count, then the items.
fn put_array(bytes: &mut Vec<u8>, array: &Array) {
    bytes.extend(array.item_type_id().to_le_bytes());
    put_count(bytes, array.len());
    match array {
        Array::U8s(items) => bytes.extend(items),
        Array::I8s(items) => items.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Array::U16s(items) => items.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Array::I16s(items) => items.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Array::U32s(items) => items.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Array::I32s(items) => items.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Array::F32s(items) => items.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Array::Bools(items) => items.iter().for_each(|&x| bytes.push(u8::from(x))),
        Array::Strings(items) => items.iter().for_each(|text| put_string(bytes, text)),
        Array::Arrays(items) => items.iter().for_each(|array| put_array(bytes, array)),
        Array::U64s(items) => items.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Array::I64s(items) => items.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Array::F64s(items) => items.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Bytes;
    use crate::format::gguf::GgufFile;
    use crate::quant::Format;
    use crate::shape::Shape;

    fn ones<const N: usize>(shape: [usize; N]) -> Weight {
        let shape = Shape::from(shape);
        let values = Bytes::from_f32(vec![1.0; shape.elements()]);
        Weight::new(Format::F32, shape, values).unwrap()
    }

    #[test]
    fn nested_arrays_come_back_as_they_were() {
        let mut metadata = Metadata::new();
        let inner = vec![Array::I32s(vec![-1]), Array::Strings(vec!["a".into()])];
        metadata.set("nested", Value::Array(Array::Arrays(inner)));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gguf");
        write(&path, &metadata, &[]).unwrap();
        assert_eq!(GgufFile::open(&path).unwrap().metadata(), &metadata);
    }

    #[test]
    fn what_gguf_cannot_hold_is_refused_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gguf");
        let refused = |name: &str, weight: Weight, count: usize| {
            let tensors = vec![(name.to_string(), weight); count];
            write(&path, &Metadata::new(), &tensors)
                .unwrap_err()
                .message
        };
        let long = refused(&"x".repeat(64), ones([1]), 1);
        assert!(
            long.ends_with("has 64 bytes; GGUF allows 1 to 63"),
            "{long}"
        );
        assert!(refused("a", ones([1, 1, 1, 1, 1]), 1).contains("more than 4 axes"));
        assert!(refused("a", ones([1]), 2).contains("would be written twice"));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
