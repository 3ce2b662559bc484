//! Writes safetensors files: the header padded to eight bytes, then the tensors without gaps.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::LENGTH_BYTES;
use crate::error;
use crate::error::Result;
use crate::format::atomic;
use crate::quant::{Format, Weight};

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
    let failed =
        |what: String| error!(UnsupportedFormat, "cannot write {}: {what}", path.display());
    let mut sorted: Vec<_> = tensors.iter().collect();
    sorted.sort_by_key(|(name, weight)| (rank(weight.format()), name));

    let mut header = Map::new();
    if !metadata.is_empty() {
        header.insert("__metadata__".into(), json!(metadata));
    }
    let mut start = 0;
    for (name, weight) in &sorted {
        let format = weight.format();
        if rank(format).is_none() {
            return Err(failed(format!(
                "tensor {name} is {}, safetensors holds F32, F16 and BF16",
                format.name()
            )));
        }
        let end = start + weight.bytes().len();
        let entry = json!({"dtype": format.name(), "shape": weight.shape()[..], "data_offsets": [start, end]});
        if name == "__metadata__" || header.insert(name.clone(), entry).is_some() {
            return Err(failed(format!("the name {name} is taken")));
        }
        start = end;
    }
    let mut header = serde_json::to_vec(&Value::Object(header))
        .map_err(|cause| error!(Internal, "header of {}: {cause}", path.display()))?;
    header.resize(header.len().next_multiple_of(LENGTH_BYTES), b' ');

    atomic::write(path, |output| {
        output.bytes(&(header.len() as u64).to_le_bytes())?;
        output.bytes(&header)?;
        for (_, weight) in &sorted {
            output.bytes(weight.bytes().as_u8())?;
        }
        Ok(())
    })
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
    use crate::shape::Shape;

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
