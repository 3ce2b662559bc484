//! Frozen weights in the formats of checkpoint files, and how they become f32.

mod weight;

pub use weight::Weight;

use crate::bail;
use crate::error::Result;

/// How the elements of a frozen weight are stored. Names and ids are those of GGUF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    IQ4NL,
    IQ4XS,
}

impl Format {
    /// Elements per block; a row of a weight is a whole number of blocks.
    pub fn block_elements(self) -> usize {
        match self {
            Format::F32 | Format::F16 | Format::BF16 => 1,
            _ => 32,
        }
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        match self {
            Format::F32 => 4,
            _ => 2,
        }
    }

    /// Unpacks whole blocks: `packed` holds `values.len() / block_elements` blocks.
    pub fn unpack(self, packed: &[u8], values: &mut [f32]) -> Result<()> {
        let _ = (packed, values);
        bail!(UnsupportedFormat, "{self:?} cannot be unpacked")
    }
}
