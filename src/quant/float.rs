//! F32, F16 and BF16: plain numbers, little-endian, at any alignment.
//! BF16 is the upper half of an f32; every f16 is exact in f32.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::block::{each_block, each_packed};

pub fn unpack_f32(packed: &[u8], values: &mut [f32]) {
    each_block(packed, values, |bytes: &[u8; 4], [value]| {
        *value = f32::from_le_bytes(*bytes)
    });
}

pub fn unpack_bf16(packed: &[u8], values: &mut [f32]) {
    each_block(packed, values, |&[low, high]: &[u8; 2], [value]| {
        *value = f32::from_le_bytes([0, 0, low, high])
    });
}

/// Through a small aligned buffer, because `half` converts slices with the vector instructions of the machine.
pub fn unpack_f16(packed: &[u8], values: &mut [f32]) {
    const RUN: usize = 256;
    let mut run = [f16::ZERO; RUN];
    for (packed, values) in packed.chunks(2 * RUN).zip(values.chunks_mut(RUN)) {
        let run = &mut run[..values.len()];
        for (half, bytes) in run.iter_mut().zip(packed.as_chunks().0) {
            *half = f16::from_le_bytes(*bytes);
        }
        run.convert_to_f32_slice(values);
    }
}

pub fn pack_f32(values: &[f32], packed: &mut [u8]) {
    each_packed(values, packed, |[value]: &[f32; 1], bytes: &mut [u8; 4]| {
        *bytes = value.to_le_bytes()
    });
}

/// To the nearest, halves to the even one.
pub fn pack_f16(values: &[f32], packed: &mut [u8]) {
    each_packed(values, packed, |[value]: &[f32; 1], bytes: &mut [u8; 2]| {
        *bytes = f16::from_f32(*value).to_le_bytes()
    });
}

/// To the nearest, halves to the even one.
pub fn pack_bf16(values: &[f32], packed: &mut [u8]) {
    each_packed(values, packed, |[value]: &[f32; 1], bytes: &mut [u8; 2]| {
        *bytes = bf16::from_f32(*value).to_le_bytes()
    });
}
