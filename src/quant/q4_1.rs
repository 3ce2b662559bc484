//! Q4_1: 32 elements in 20 bytes, y = d·q + m.
//!
//! ```text
//! | d f16 | m f16 | qs 16 bytes: low nibbles are elements 0..16, high nibbles 16..32 |
//! ```

use bytemuck::AnyBitPattern;

use super::block::{Half, each_block};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Block {
    d: Half,
    m: Half,
    qs: [u8; 16],
}

pub fn unpack(packed: &[u8], values: &mut [f32]) {
    each_block(packed, values, |block: &Block, values: &mut [f32; 32]| {
        let (d, m) = (block.d.to_f32(), block.m.to_f32());
        for (i, q) in block.qs.iter().enumerate() {
            values[i] = d * (q & 15) as f32 + m;
            values[16 + i] = d * (q >> 4) as f32 + m;
        }
    });
}
