//! Q5_1: 32 elements in 24 bytes, y = d·q + m.
//!
//! ```text
//! | d f16 | m f16 | qh u32: bit i is bit 4 of element i | qs 16 bytes: low nibbles are elements 0..16, high nibbles 16..32 |
//! ```

use bytemuck::AnyBitPattern;

use super::block::{Half, each_block};
use super::q5_0::quants;

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Block {
    d: Half,
    m: Half,
    qh: [u8; 4],
    qs: [u8; 16],
}

pub fn unpack(packed: &[u8], values: &mut [f32]) {
    each_block(packed, values, |block: &Block, values: &mut [f32; 32]| {
        let (d, m) = (block.d.to_f32(), block.m.to_f32());
        let q = quants(block.qh, &block.qs);
        for (value, q) in values.iter_mut().zip(q) {
            *value = d * q as f32 + m;
        }
    });
}
