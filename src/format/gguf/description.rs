//! One tensor's entry in the header of a GGUF file, and where it says the data is.

use std::borrow::Cow;
use std::ops::Range;

use super::cursor::Cursor;
use super::header::within;
use crate::bail;
use crate::error;
use crate::error::Result;
use crate::format::Tensor;
use crate::format::mapping::DAMAGED;
use crate::quant::{Format, ggml_type_name};
use crate::shape::Shape;

pub(super) const MAX_DIMS: u32 = 4;

/// A tensor as its entry in the header says.
pub(super) struct Description<'a> {
    name: &'a str,
    /// Row-major: the file's order reversed.
    shape: Shape,
    type_id: u32,
    offset: u64,
}

impl<'a> Description<'a> {
    /// The next entry. Errors: a bad name, more than four axes, the end of the file.
    pub fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
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
        Ok(Description {
            name,
            shape: Shape::from(&axes[..]),
            type_id: cursor.u32().map_err(failed)?,
            offset: cursor.u64().map_err(failed)?,
        })
    }

    /// Finds the bytes in a file of `length` bytes whose tensor data starts at `data`. Errors: an offset or size that
    /// cannot be.
    pub fn place(
        self,
        length: usize,
        data: usize,
        alignment: usize,
        part: usize,
    ) -> Result<Tensor> {
        let Description {
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
        // The size of an unknown type is unknown: such a tensor is listed, never read. A tensor of no elements may stand at
        // the end of a file that is not padded.
        let size = match format {
            Some(format) => size(name, &shape, format)?,
            None => elements(name, &shape).map(|_| 0)?,
        };
        let bytes = place(data, offset, size)
            .filter(|bytes| bytes.end <= length || (size == 0 && format.is_some()));
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
