//! Q2_K: 256 elements in 84 bytes, 16 sub-blocks of 16, y = (d·scale)·q − dmin·min.
//!
//! ```text
//! | sc 16 bytes: scale in the low nibble, min in the high one | qs 64 bytes | d f16 | dmin f16 |
//! ```
//! Byte l of the 32 bytes of half h holds elements 128h + 32s + l in its bits 2s and 2s + 1, s = 0..4.

use bytemuck::AnyBitPattern;

use super::block::{Half, each_block};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Block {
    sc: [u8; 16],
    qs: [u8; 64],
    d: Half,
    dmin: Half,
}

pub fn unpack(packed: &[u8], values: &mut [f32]) {
    each_block(packed, values, |block: &Block, values: &mut [f32; 256]| {
        let (d, dmin) = (block.d.to_f32(), block.dmin.to_f32());
        for (k, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let (half, shift, side) = (k / 8, k / 2 % 4 * 2, k % 2);
            let scale = d * (block.sc[k] & 15) as f32;
            let min = dmin * (block.sc[k] >> 4) as f32;
            let qs = &block.qs.as_chunks::<16>().0[2 * half + side];
            for (value, q) in values.iter_mut().zip(qs) {
                *value = scale * (q >> shift & 3) as f32 - min;
            }
        }
    });
}
