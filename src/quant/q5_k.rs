//! Q5_K: 256 elements in 176 bytes, 8 sub-blocks of 32, y = (d·scale)·q − dmin·min.
//!
//! ```text
//! | d f16 | dmin f16 | sc 12 bytes, as in Q4_K | qh 32 bytes | qs 128 bytes, as in Q4_K |
//! ```
//! Bit j of qh[l] is bit 4 of element l of sub-block j.

use bytemuck::AnyBitPattern;

use super::block::{Half, each_block};
use super::q4_k::scale_and_min;

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Block {
    d: Half,
    dmin: Half,
    sc: [u8; 12],
    qh: [u8; 32],
    qs: [u8; 128],
}

pub fn unpack(packed: &[u8], values: &mut [f32]) {
    each_block(packed, values, |block: &Block, values: &mut [f32; 256]| {
        let (d, dmin) = (block.d.to_f32(), block.dmin.to_f32());
        let pairs = values.as_chunks_mut::<64>().0.iter_mut();
        for (pair, values) in pairs.enumerate() {
            let qs = &block.qs.as_chunks::<32>().0[pair];
            let mut q = [0u8; 64];
            for l in 0..32 {
                let high = block.qh[l] >> (2 * pair);
                q[l] = (qs[l] & 15) | (high & 1) << 4;
                q[32 + l] = (qs[l] >> 4) | (high >> 1 & 1) << 4;
            }
            for (j, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                let (scale, min) = scale_and_min(&block.sc, 2 * pair + j);
                let (scale, min) = (d * scale as f32, dmin * min as f32);
                for (value, q) in values.iter_mut().zip(&q[32 * j..]) {
                    *value = scale * *q as f32 - min;
                }
            }
        }
    });
}
