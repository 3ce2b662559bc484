//! Q4_0: 32 elements in 18 bytes, y = d·(q − 8).
//!
//! ```text
//! | d f16 | qs 16 bytes: low nibbles are elements 0..16, high nibbles 16..32 |
//! ```

use bytemuck::AnyBitPattern;

use super::block::{Half, each_block};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Block {
    d: Half,
    qs: [u8; 16],
}

pub fn unpack(packed: &[u8], values: &mut [f32]) {
    each_block(packed, values, |block: &Block, values: &mut [f32; 32]| {
        let d = block.d.to_f32();
        for (i, q) in block.qs.iter().enumerate() {
            values[i] = d * ((q & 15) as f32 - 8.0);
            values[16 + i] = d * ((q >> 4) as f32 - 8.0);
        }
    });
}
