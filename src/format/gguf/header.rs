//! The header of one GGUF file: version, metadata, and where each tensor lies.
//!
//! Source: ggml-org/ggml, `docs/gguf.md`; the checks are those of GGML's own reader and a few more.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::cursor::Cursor;
use super::{Metadata, Value, align};
use crate::bail;
use crate::error;
use crate::error::{Error, Result};
use crate::format::Tensor;
use crate::format::mapping::{self, DAMAGED};
use crate::quant::{Format, ggml_type_name};
use crate::shape::Shape;

pub(super) const MAGIC: &[u8; 4] = b"GGUF";
const ALIGNMENT_KEY: &str = "general.alignment";
const DEFAULT_ALIGNMENT: usize = 32;
pub(super) const MAX_DIMS: u32 = 4;

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

    let mut names = HashSet::new();
    let mut described = Vec::new();
    for _ in 0..tensor_count {
        let tensor = Described::read(&mut cursor)?;
        if !names.insert(tensor.name) {
            bail!(BadModel, "tensor {} is there twice", tensor.name);
        }
        described.push(tensor);
    }
    let data = align(cursor.position(), alignment)?;
    let tensors = described
        .into_iter()
        .map(|tensor| tensor.place(file.len(), data, alignment, part))
        .collect::<Result<_>>()?;
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

/// A tensor as its entry in the header says.
struct Described<'a> {
    name: &'a str,
    shape: Shape,
    type_id: u32,
    offset: u64,
}

impl<'a> Described<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let name = cursor.name("a tensor name")?;
        let failed = |error| within(&format!("tensor {name}"), error);
        let dims = cursor.u32().map_err(failed)?;
        if dims > MAX_DIMS {
            bail!(
                BadModel,
                "tensor {name} has {dims} axes, at most {MAX_DIMS} are allowed"
            );
        }
        let mut axes = Vec::with_capacity(dims as usize);
        for _ in 0..dims {
            let axis = cursor.u64().map_err(failed)?;
            axes.push(
                usize::try_from(axis)
                    .map_err(|_| error!(BadModel, "tensor {name} has an axis of {axis}"))?,
            );
        }
        // The file names the contiguous axis first.
        axes.reverse();
        Ok(Described {
            name,
            shape: Shape::from(&axes[..]),
            type_id: cursor.u32().map_err(failed)?,
            offset: cursor.u64().map_err(failed)?,
        })
    }

    /// Finds the bytes in a file of `length` bytes whose tensor data starts at `data`.
    fn place(self, length: usize, data: usize, alignment: usize, part: usize) -> Result<Tensor> {
        let Described {
            name,
            shape,
            type_id,
            offset,
        } = self;
        if !offset.is_multiple_of(alignment as u64) {
            bail!(
                BadModel,
                "tensor {name} starts at {offset}, which is not a multiple of {alignment}"
            );
        }
        let format = Format::from_ggml(type_id);
        // The size of an unknown type is unknown: such a tensor is listed, never read.
        let size = match format {
            Some(format) => size(name, &shape, format)?,
            None => elements(name, &shape).map(|_| 0)?,
        };
        let bytes = place(data, offset, size).filter(|bytes| size == 0 || bytes.end <= length);
        let Some(bytes) = bytes else {
            return Err(error!(
                BadModel,
                "tensor {name} {shape} has {size} bytes at {offset} after {data}, past the end of the file at {length}"
            )
            .hint(DAMAGED));
        };
        let type_name = match ggml_type_name(type_id) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("number {type_id}")),
        };
        Ok(Tensor::new(name, shape, type_name, format, part, bytes))
    }
}

fn place(data: usize, offset: u64, size: usize) -> Option<Range<usize>> {
    let start = data.checked_add(usize::try_from(offset).ok()?)?;
    Some(start..start.checked_add(size)?)
}

fn elements(name: &str, shape: &Shape) -> Result<usize> {
    let product = shape
        .iter()
        .try_fold(1usize, |n, &axis| n.checked_mul(axis));
    product.ok_or_else(|| {
        error!(
            BadModel,
            "tensor {name} {shape} has more elements than memory has addresses"
        )
    })
}

/// Bytes of a whole tensor.
fn size(name: &str, shape: &Shape, format: Format) -> Result<usize> {
    let block = format.block_elements();
    if !shape.last().is_multiple_of(block) {
        bail!(
            BadModel,
            "tensor {name} {shape}: rows of {} are not a whole number of {} blocks of {block}",
            shape.last(),
            format.name()
        );
    }
    let blocks = elements(name, shape)? / block;
    let size = blocks.checked_mul(format.block_bytes());
    size.ok_or_else(|| error!(BadModel, "tensor {name} {shape} is larger than memory"))
}

/// Says which entry of the header an error is about.
fn within(what: &str, mut error: Error) -> Error {
    error.message = format!("{what}: {}", error.message);
    error
}
