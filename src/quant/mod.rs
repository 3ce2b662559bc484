//! Frozen weights in the formats of checkpoint files, and how they become f32.

mod block;
mod float;
mod iq4_nl;
mod iq4_xs;
mod names;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod search;
mod weight;

pub use names::ggml_type_name;
pub use weight::Weight;

use std::fmt;

use rayon::prelude::*;

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

/// What a format is, and the one place that lists them; adding a format is a variant, a row and its file.
struct Row {
    format: Format,
    name: &'static str,
    ggml_id: u32,
    elements: usize,
    bytes: usize,
    unpack: fn(&[u8], &mut [f32]),
    pack: fn(&[f32], &mut [u8]),
    /// The largest magnitude that values of either sign may have.
    most: f32,
}

/// Values that a thread packs before it takes more.
const PACKED_AT_ONCE: usize = 16 * 1024;

/// The largest f16 number; all but F32 and BF16 hold such.
const HALF: f32 = 65504.0;

/// In the order of the variants. Source of names and ids: `enum ggml_type` in GGML's `ggml.h`.
#[rustfmt::skip]
static ROWS: [Row; 15] = {
    use Format::*;
    [
        row::<[u8; 4]>(F32, "F32", 0, 1, float::unpack_f32, float::pack_f32, f32::MAX),
        row::<[u8; 2]>(F16, "F16", 1, 1, float::unpack_f16, float::pack_f16, HALF),
        row::<[u8; 2]>(BF16, "BF16", 30, 1, float::unpack_bf16, float::pack_bf16, f32::MAX),
        row::<q4_0::Block>(Q4_0, "Q4_0", 2, 32, q4_0::unpack, q4_0::pack, 8.0 * HALF),
        row::<q4_1::Block>(Q4_1, "Q4_1", 3, 32, q4_1::unpack, q4_1::pack, HALF),
        row::<q5_0::Block>(Q5_0, "Q5_0", 6, 32, q5_0::unpack, q5_0::pack, 16.0 * HALF),
        row::<q5_1::Block>(Q5_1, "Q5_1", 7, 32, q5_1::unpack, q5_1::pack, HALF),
        row::<q8_0::Block>(Q8_0, "Q8_0", 8, 32, q8_0::unpack, q8_0::pack, 127.0 * HALF),
        row::<q2_k::Block>(Q2K, "Q2_K", 10, 256, q2_k::unpack, q2_k::pack, 15.0 * HALF),
        row::<q3_k::Block>(Q3K, "Q3_K", 11, 256, q3_k::unpack, q3_k::pack, 31.0 * 3.0 * HALF),
        row::<q4_k::Block>(Q4K, "Q4_K", 12, 256, q4_k::unpack, q4_k::pack, 63.0 * HALF),
        row::<q5_k::Block>(Q5K, "Q5_K", 13, 256, q5_k::unpack, q5_k::pack, 63.0 * HALF),
        row::<q6_k::Block>(Q6K, "Q6_K", 14, 256, q6_k::unpack, q6_k::pack, 127.0 * 31.0 * HALF),
        row::<iq4_nl::Block>(IQ4NL, "IQ4_NL", 20, 32, iq4_nl::unpack, iq4_nl::pack, 113.0 * HALF),
        row::<iq4_xs::Block>(IQ4XS, "IQ4_XS", 23, 256, iq4_xs::unpack, iq4_xs::pack, 31.0 * 113.0 * HALF),
    ]
};

const fn row<Block>(
    format: Format,
    name: &'static str,
    ggml_id: u32,
    elements: usize,
    unpack: fn(&[u8], &mut [f32]),
    pack: fn(&[f32], &mut [u8]),
    most: f32,
) -> Row {
    Row {
        format,
        name,
        ggml_id,
        elements,
        bytes: size_of::<Block>(),
        unpack,
        pack,
        most,
    }
}

impl Format {
    /// Every format that can be read.
    pub const ALL: [Format; ROWS.len()] = {
        let mut all = [Format::F32; ROWS.len()];
        let mut i = 0;
        while i < all.len() {
            all[i] = ROWS[i].format;
            assert!(all[i] as usize == i, "rows stand in the order of variants");
            i += 1;
        }
        all
    };

    /// The format of a tensor of a GGUF file; none when it cannot be read ([`ggml_type_name`] names it then).
    pub fn from_ggml(id: u32) -> Option<Format> {
        let row = ROWS.iter().find(|row| row.ggml_id == id)?;
        Some(row.format)
    }

    /// The name in GGUF's spelling, e.g. `Q4_K`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The number of the type in GGUF files.
    pub fn ggml_id(self) -> u32 {
        self.row().ggml_id
    }

    /// Elements per block; a row of a weight is a whole number of blocks.
    pub fn block_elements(self) -> usize {
        self.row().elements
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        self.row().bytes
    }

    /// Unpacks whole blocks: `packed` holds `values.len() / block_elements` blocks.
    ///
    /// The values are those of GGML's reference, bit for bit. An error when the two lengths do not fit each other.
    pub fn unpack(self, packed: &[u8], values: &mut [f32]) -> Result<()> {
        let row = self.row();
        let blocks = values.len() / row.elements;
        if !values.len().is_multiple_of(row.elements) || packed.len() != blocks * row.bytes {
            bail!(
                Internal,
                "unpack: {} bytes of {self} are not {} values; a block is {} bytes and {} values",
                packed.len(),
                values.len(),
                row.bytes,
                row.elements
            );
        }
        (row.unpack)(packed, values);
        Ok(())
    }

    /// Packs whole blocks on all threads of the current pool: `values` are as many blocks as `packed` holds.
    ///
    /// Up to Q8_0 in the order of GGML's ids the bytes are those of PyPI `gguf`'s `quantize`; Q2_K to IQ4_XS, which it
    /// cannot write, come at least as near to the values as GGML's own quantiser without an importance matrix.
    ///
    /// Errors: `NON_FINITE` for a value that is not a number or too large for the format (65504 in F16), with its
    /// place; lengths that do not fit each other.
    pub fn pack(self, values: &[f32], packed: &mut [u8]) -> Result<()> {
        let row = self.row();
        let blocks = values.len() / row.elements;
        if !values.len().is_multiple_of(row.elements) || packed.len() != blocks * row.bytes {
            bail!(
                Internal,
                "pack: {} values are not {} bytes of {self}",
                values.len(),
                packed.len()
            );
        }
        if let Some(at) = values
            .iter()
            .position(|value| value.is_nan() || value.abs() > row.most)
        {
            bail!(
                NonFinite,
                "value {at} is {}, {self} holds at most {}",
                values[at],
                row.most
            );
        }
        let blocks = PACKED_AT_ONCE / row.elements;
        values
            .par_chunks(blocks * row.elements)
            .zip(packed.par_chunks_mut(blocks * row.bytes))
            .for_each(|(values, packed)| (row.pack)(values, packed));
        Ok(())
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::SafeTensors;

    /// Made by `__test__/reference/quants.py` with PyPI `gguf`; its header says what is inside.
    const FIXTURE: &[u8] = include_bytes!("../../__test__/fixtures/quants.safetensors");

    fn tensor(format: Format, part: &str) -> Vec<[u8; 4]> {
        let file = SafeTensors::deserialize(FIXTURE).unwrap();
        let tensor = file.tensor(&format!("{format}.{part}")).unwrap();
        tensor.data().as_chunks().0.to_vec()
    }

    fn packed(format: Format) -> Vec<u8> {
        let file = SafeTensors::deserialize(FIXTURE).unwrap();
        file.tensor(&format!("{format}.packed"))
            .unwrap()
            .data()
            .to_vec()
    }

    #[test]
    fn every_format_unpacks_to_the_bits_of_gguf() {
        for format in Format::ALL {
            let expected = tensor(format, "values").into_iter().map(f32::from_le_bytes);
            let mut values = vec![0.0; expected.len()];
            format.unpack(&packed(format), &mut values).unwrap();
            for (i, (value, expected)) in values.into_iter().zip(expected).enumerate() {
                assert_eq!(
                    value.to_bits(),
                    expected.to_bits(),
                    "{format} element {i}: {value:e}, gguf has {expected:e}"
                );
            }
        }
    }

    #[test]
    fn every_format_that_gguf_writes_packs_to_its_bits() {
        let numbers: Vec<f32> = {
            let file = SafeTensors::deserialize(FIXTURE).unwrap();
            let data = file.tensor("numbers").unwrap().data().to_vec();
            data.as_chunks()
                .0
                .iter()
                .map(|x| f32::from_le_bytes(*x))
                .collect()
        };
        let mut formats = 0;
        for format in Format::ALL {
            let file = SafeTensors::deserialize(FIXTURE).unwrap();
            let Ok(expected) = file.tensor(&format!("{format}.quantised")) else {
                continue;
            };
            let mut packed = vec![0; expected.data().len()];
            format.pack(&numbers, &mut packed).unwrap();
            let first = packed
                .iter()
                .zip(expected.data())
                .position(|(ours, theirs)| ours != theirs);
            assert_eq!(first, None, "{format}: byte {first:?} differs");
            formats += 1;
        }
        assert_eq!(formats, 8);
    }

    #[test]
    fn values_too_large_for_a_format_are_refused_with_their_place() {
        let mut values = vec![1.0; 32];
        values[7] = 70000.0;
        let error = Format::F16.pack(&values, &mut [0; 64]).unwrap_err();
        assert_eq!(error.code, crate::error::Code::NonFinite);
        assert_eq!(error.message, "value 7 is 70000, F16 holds at most 65504");
        Format::Q8_0.pack(&values, &mut [0; 34]).unwrap();
        Format::BF16.pack(&values, &mut [0; 64]).unwrap();
        let mut values = vec![1.0; 256];
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            values[7] = bad;
            for format in Format::ALL {
                let bytes = 256 / format.block_elements() * format.block_bytes();
                let error = format.pack(&values, &mut vec![0; bytes]).unwrap_err();
                let start = format!("value 7 is {bad}, {format} holds");
                assert!(error.message.starts_with(&start), "{}", error.message);
            }
        }
    }

    #[test]
    fn ids_and_block_sizes_are_those_of_gguf() {
        for format in Format::ALL {
            let layout = tensor(format, "layout").into_iter().map(u32::from_le_bytes);
            let (elements, bytes) = (format.block_elements(), format.block_bytes());
            let ours = [format.ggml_id(), elements as u32, bytes as u32];
            assert!(layout.eq(ours), "{format}: {ours:?}");
            assert_eq!(Format::from_ggml(format.ggml_id()), Some(format));
        }
    }

    #[test]
    fn every_type_gguf_knows_has_its_name() {
        let (_, header) = SafeTensors::read_metadata(FIXTURE).unwrap();
        let types = &header.metadata().as_ref().unwrap()["ggml_types"];
        let types: serde_json::Map<_, _> = serde_json::from_str(types).unwrap();
        for (id, name) in types {
            assert_eq!(
                ggml_type_name(id.parse().unwrap()),
                name.as_str(),
                "id {id}"
            );
        }
        assert_eq!(ggml_type_name(1000), None);
        assert_eq!(Format::from_ggml(39), None);
    }

    #[test]
    fn packed_bytes_may_lie_at_any_address() {
        for format in Format::ALL {
            let packed = packed(format);
            let count = packed.len() / format.block_bytes() * format.block_elements();
            let (mut values, mut moved) = (vec![0.0; count], vec![0.0; count]);
            format.unpack(&packed, &mut values).unwrap();
            for shift in 1..4 {
                let mut shifted = vec![0; shift];
                shifted.extend_from_slice(&packed);
                format.unpack(&shifted[shift..], &mut moved).unwrap();
                let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&values), bits(&moved), "{format} moved by {shift}");
            }
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_errors() {
        for format in Format::ALL {
            let (elements, bytes) = (format.block_elements(), format.block_bytes());
            let mut values = vec![0.0; 2 * elements];
            for wrong in [0, bytes, 2 * bytes - 1, 2 * bytes + 1, 3 * bytes] {
                let error = format.unpack(&vec![0; wrong], &mut values).unwrap_err();
                assert!(error.message.contains(format.name()), "{}", error.message);
            }
            if elements > 1 {
                values.push(0.0);
                assert!(format.unpack(&vec![0; 2 * bytes], &mut values).is_err());
            }
        }
    }

    /// Against sign · 2^(exponent − 25) · mantissa, for all 65536 patterns.
    #[test]
    fn every_f16_becomes_the_number_it_is() {
        let packed: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let mut values = vec![0.0; 1 << 16];
        Format::F16.unpack(&packed, &mut values).unwrap();
        for (bits, value) in values.into_iter().enumerate() {
            let (exponent, fraction) = (bits >> 10 & 31, (bits & 1023) as f64);
            let size = match exponent {
                0 => fraction * 2f64.powi(-24),
                31 if fraction == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                _ => (1024.0 + fraction) * 2f64.powi(exponent as i32 - 25),
            };
            let expected = if bits >> 15 == 0 { size } else { -size };
            let one = f64::from(block::Half((bits as u16).to_le_bytes()).to_f32());
            for value in [f64::from(value), one] {
                let same = value.to_bits() == expected.to_bits();
                assert!(
                    same || value.is_nan() && size.is_nan(),
                    "{bits:#06x}: {value}"
                );
            }
        }
    }
}
