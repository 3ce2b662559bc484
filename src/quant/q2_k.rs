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
        let halves = values.as_chunks_mut::<128>().0.iter_mut();
        for (half, values) in halves.enumerate() {
            let qs = &block.qs.as_chunks::<32>().0[half];
            let sc = &block.sc.as_chunks::<8>().0[half];
            let mut q = [0u8; 128];
            for l in 0..32 {
                q[l] = qs[l] & 3;
                q[32 + l] = qs[l] >> 2 & 3;
                q[64 + l] = qs[l] >> 4 & 3;
                q[96 + l] = qs[l] >> 6;
            }
            for (k, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                let scale = d * (sc[k] & 15) as f32;
                let min = dmin * (sc[k] >> 4) as f32;
                for (value, q) in values.iter_mut().zip(&q[16 * k..]) {
                    *value = scale * *q as f32 - min;
                }
            }
        }
    });
}
