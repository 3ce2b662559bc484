//! A frozen matrix or vector: bytes in a [`Format`], usually a slice of a mapped file. It is never tracked.

use crate::backend::Bytes;
use crate::bail;
use crate::error::Result;
use crate::quant::Format;
use crate::shape::Shape;

/// Frozen values. The last axis is contiguous and a whole number of blocks.
#[derive(Clone)]
pub struct Weight {
    format: Format,
    shape: Shape,
    bytes: Bytes,
}

impl Weight {
    /// Checks that `bytes` is exactly what `shape` needs in `format`.
    pub fn new(format: Format, shape: Shape, bytes: Bytes) -> Result<Self> {
        let block = format.block_elements();
        if !shape.last().is_multiple_of(block) {
            bail!(
                BadModel,
                "a row of {} elements is not a whole number of {format:?} blocks of {block}",
                shape.last()
            );
        }
        let need = shape.elements() / block * format.block_bytes();
        if bytes.len() != need {
            bail!(
                BadModel,
                "{format:?} {shape} needs {need} bytes, the file has {}",
                bytes.len()
            );
        }
        Ok(Weight {
            format,
            shape,
            bytes,
        })
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Unpacks rows `first..first + values.len() / last axis` into `values`.
    pub fn unpack_rows(&self, first: usize, values: &mut [f32]) -> Result<()> {
        let row_bytes =
            self.shape.last() / self.format.block_elements() * self.format.block_bytes();
        let rows = values.len() / self.shape.last();
        let packed = &self.bytes.as_u8()[first * row_bytes..(first + rows) * row_bytes];
        self.format.unpack(packed, values)
    }

    /// The whole weight in f32: for vectors (norms, biases) and tests.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        let mut values = vec![0.0; self.shape.elements()];
        self.unpack_rows(0, &mut values)?;
        Ok(values)
    }
}
