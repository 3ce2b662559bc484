//! Writes safetensors files: the header padded to eight bytes, then the tensors without gaps.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::LENGTH_BYTES;
use crate::error;
use crate::error::Result;
use crate::format::{Entry, atomic, fault};
use crate::quant::{Format, Weight};
use crate::shape::Shape;

/// Writes `tensors` with the strings of `metadata` under `__metadata__` (left out when there are none).
///
/// Tensors are laid out by size of element, largest first, then by name, so that all of them are aligned; the reference
/// library does the same. Errors: a quantised tensor, a name that is twice there or is `__metadata__`, and those of
/// [`atomic::write`]; the file is whole or absent.
pub fn write(
    path: &Path,
    metadata: &BTreeMap<String, String>,
    tensors: &[(String, Weight)],
) -> Result<()> {
    let entries: Vec<Entry> = tensors.iter().map(Entry::of).collect();
    stream(path, metadata, &entries, &mut |number, output| {
        output.bytes(tensors[number].1.bytes().as_u8())
    })
}

/// As [`write`], with tensors that are made while they are written: `each(number, output)` writes the bytes of entry
/// `number`, as many as the entry says. The order of the calls is that of the file.
pub fn stream(
    path: &Path,
    metadata: &BTreeMap<String, String>,
    entries: &[Entry],
    each: &mut dyn FnMut(usize, &mut atomic::Output) -> Result<()>,
) -> Result<()> {
    let failed =
        |what: String| error!(UnsupportedFormat, "cannot write {}: {what}", path.display());
    let mut sorted: Vec<_> = entries.iter().enumerate().collect();
    sorted.sort_by_key(|(_, entry)| (rank(entry.format), &entry.name));

    let mut header = Map::new();
    if !metadata.is_empty() {
        header.insert("__metadata__".into(), json!(metadata));
    }
    let mut start = 0;
    for (_, entry) in &sorted {
        let Entry {
            name,
            shape,
            format,
        } = entry;
        if rank(*format).is_none() {
            return Err(failed(format!(
                "tensor {name} is {}, safetensors holds F32, F16 and BF16",
                format.name()
            )));
        }
        let end = start + entry.bytes();
        let entry =
            json!({"dtype": format.name(), "shape": shape[..], "data_offsets": [start, end]});
        if name == "__metadata__" || header.insert(name.clone(), entry).is_some() {
            return Err(failed(format!("the name {name} is taken")));
        }
        start = end;
    }
    let header = padded(&header, path)?;

    atomic::write(path, |output| {
        output.bytes(&(header.len() as u64).to_le_bytes())?;
        output.bytes(&header)?;
        sorted
            .iter()
            .try_for_each(|(number, _)| each(*number, output))
    })
}

/// Is given name, shape and values of one tensor after another.
pub type EachTensor<'a> = dyn FnMut(&str, &Shape, &[f32]) -> Result<()> + 'a;

/// Gives every tensor to its argument, each time it is called the same ones.
pub type Tensors<'a> = dyn Fn(&mut EachTensor) -> Result<()> + 'a;

/// Writes f32 tensors in the order in which `tensors` gives them, without a copy of any.
///
/// Errors: those of `tensors`, a name that is twice there, and those of [`atomic::write`].
pub fn write_f32(path: &Path, tensors: &Tensors) -> Result<()> {
    let (mut header, mut start) = (Map::new(), 0);
    tensors(&mut |name, shape, values| {
        let end = start + size_of_val(values);
        let entry = json!({"dtype": "F32", "shape": shape[..], "data_offsets": [start, end]});
        start = end;
        match header.insert(name.to_owned(), entry) {
            None => Ok(()),
            Some(_) => Err(error!(
                Internal,
                "{}: {name} is twice there",
                path.display()
            )),
        }
    })?;
    let header = padded(&header, path)?;
    atomic::write(path, |output| {
        output.bytes(&(header.len() as u64).to_le_bytes())?;
        output.bytes(&header)?;
        tensors(&mut |_, _, values| {
            fault::point("between the tensors of a file");
            output.bytes(bytemuck::cast_slice(values))
        })
    })
}

/// The header as JSON, filled up with blanks to whole words of eight bytes.
fn padded(header: &Map<String, Value>, path: &Path) -> Result<Vec<u8>> {
    let mut header = serde_json::to_vec(header)
        .map_err(|cause| error!(Internal, "header of {}: {cause}", path.display()))?;
    header.resize(header.len().next_multiple_of(LENGTH_BYTES), b' ');
    Ok(header)
}

/// The place of a format among the tensors of a file; none when safetensors has no such type.
fn rank(format: Format) -> Option<u8> {
    match format {
        Format::F32 => Some(0),
        Format::BF16 => Some(1),
        Format::F16 => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Bytes;

    #[test]
    fn what_safetensors_cannot_hold_is_refused_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        let refused = |name: &str, format: Format, count: usize| {
            let bytes = Bytes::copy_of(&vec![0; format.block_bytes()]);
            let shape = Shape::from([format.block_elements()]);
            let weight = Weight::new(format, shape, bytes).unwrap();
            let tensors = vec![(name.to_string(), weight); count];
            write(&path, &BTreeMap::new(), &tensors)
                .unwrap_err()
                .message
        };
        assert!(refused("a", Format::Q8_0, 1).contains("tensor a is Q8_0"));
        assert!(refused("a", Format::F32, 2).ends_with("the name a is taken"));
        assert!(refused("__metadata__", Format::F32, 1).ends_with("is taken"));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
