//! A frozen matrix or vector: bytes in a [`Format`], usually a slice of a mapped file. It is never tracked.

use crate::backend::Bytes;
use crate::backend::cpu::product::{Matrix, Precision};
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
    precision: Precision,
}

impl Weight {
    /// Checks that `bytes` is exactly what `shape` needs in `format`.
    ///
    /// Shapes come from files: one without elements, or too large to count, is an error as well.
    pub fn new(format: Format, shape: Shape, bytes: Bytes) -> Result<Self> {
        let block = format.block_elements();
        if shape.contains(&0) {
            bail!(BadModel, "{format} {shape} has no elements");
        }
        if !shape.last().is_multiple_of(block) {
            bail!(
                BadModel,
                "a row of {} elements is not a whole number of {format} blocks of {block}",
                shape.last()
            );
        }
        let need = shape
            .iter()
            .try_fold(1, |elements: usize, &axis| elements.checked_mul(axis))
            .and_then(|elements| (elements / block).checked_mul(format.block_bytes()));
        let Some(need) = need else {
            bail!(
                BadModel,
                "{format} {shape} is larger than any memory, the file has {} bytes",
                bytes.len()
            );
        };
        if bytes.len() != need {
            bail!(
                BadModel,
                "{format} {shape} needs {need} bytes, the file has {}",
                bytes.len()
            );
        }
        Ok(Weight {
            format,
            shape,
            bytes,
            precision: Precision::F32,
        })
    }

    /// The same weight, whose products round their factors to `precision`. A new weight has f32.
    pub fn with_precision(self, precision: Precision) -> Weight {
        Weight { precision, ..self }
    }

    pub fn precision(&self) -> Precision {
        self.precision
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
    ///
    /// An error when `values` is not a whole number of rows or the rows reach past the end.
    pub fn unpack_rows(&self, first: usize, values: &mut [f32]) -> Result<()> {
        let row = self.shape.last();
        let (rows, rest) = (values.len() / row, values.len() % row);
        if rest != 0
            || first
                .checked_add(rows)
                .is_none_or(|end| end > self.shape.rows())
        {
            bail!(
                Internal,
                "unpack_rows: {} values from row {first} on do not lie in {} {} of rows of {row}",
                values.len(),
                self.format,
                self.shape
            );
        }
        let row_bytes = row / self.format.block_elements() * self.format.block_bytes();
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

impl Matrix for Weight {
    fn size(&self) -> (usize, usize) {
        (self.shape.rows(), self.shape.last())
    }

    fn unpack(&self, first: usize, values: &mut [f32]) -> Result<()> {
        self.unpack_rows(first, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Code, Error};

    fn refused(format: Format, shape: &[usize], bytes: usize) -> Error {
        let bytes = Bytes::copy_of(&vec![0; bytes]);
        Weight::new(format, shape.into(), bytes)
            .err()
            .expect("an error")
    }

    /// [3, 4] in F32 with the values 0, 1, … 11.
    fn counting() -> Weight {
        let values = (0..12).map(|i| i as f32).collect();
        Weight::new(Format::F32, [3, 4].into(), Bytes::from_f32(values)).unwrap()
    }

    #[test]
    fn a_byte_too_many_or_too_few_is_named() {
        let error = refused(Format::Q4K, &[2, 256], 287);
        assert_eq!(error.code, Code::BadModel);
        assert_eq!(
            error.message,
            "Q4_K [2, 256] needs 288 bytes, the file has 287"
        );
        refused(Format::Q4K, &[2, 256], 289);
    }

    #[test]
    fn a_row_that_cuts_a_block_is_named() {
        let error = refused(Format::Q8_0, &[2, 48], 102);
        assert_eq!(error.code, Code::BadModel);
        assert_eq!(
            error.message,
            "a row of 48 elements is not a whole number of Q8_0 blocks of 32"
        );
    }

    #[test]
    fn hostile_shapes_are_errors() {
        let huge = usize::MAX / 32 * 32;
        for (format, shape) in [
            (Format::F32, &[usize::MAX, usize::MAX][..]),
            (Format::F32, &[usize::MAX]),
            (Format::Q8_0, &[huge]),
            (Format::Q8_0, &[1 << 40, 1 << 40, 32]),
            (Format::F16, &[0, usize::MAX, usize::MAX]),
            (Format::F16, &[4, 0]),
            (Format::Q4_0, &[0]),
            (Format::Q4_0, &[]),
        ] {
            assert_eq!(refused(format, shape, 0).code, Code::BadModel, "{shape:?}");
        }
    }

    #[test]
    fn a_scalar_has_one_row_of_one() {
        let weight = Weight::new(Format::F32, [].into(), Bytes::from_f32(vec![2.5])).unwrap();
        assert_eq!(weight.to_f32().unwrap(), [2.5]);
    }

    #[test]
    fn rows_are_unpacked_from_the_first_asked() {
        let mut values = [0.0; 8];
        counting().unpack_rows(1, &mut values).unwrap();
        assert_eq!(values, [4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
        counting().unpack_rows(3, &mut []).unwrap();
    }

    #[test]
    fn rows_past_the_end_and_parts_of_rows_are_errors() {
        for (first, len) in [(2, 8), (3, 4), (4, 0), (usize::MAX, 4), (0, 5), (0, 16)] {
            let error = counting().unpack_rows(first, &mut vec![0.0; len]);
            assert_eq!(error.unwrap_err().code, Code::Internal, "{first} {len}");
        }
    }
}
