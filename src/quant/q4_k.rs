//! Q4_K: 256 elements in 144 bytes, 8 sub-blocks of 32, y = (d·scale)·q − dmin·min.
//!
//! ```text
//! | d f16 | dmin f16 | sc 12 bytes: 8 six-bit scales and 8 six-bit mins | qs 128 bytes |
//! ```
//! Of each run of 32 bytes of qs the low nibbles are one sub-block, the high nibbles the next.

use bytemuck::AnyBitPattern;

use super::block::{Half, each_block};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Block {
    d: Half,
    dmin: Half,
    sc: [u8; 12],
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
                q[l] = qs[l] & 15;
                q[32 + l] = qs[l] >> 4;
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

/// Scale and min of sub-block j, for Q5_K too.
///
/// Sub-blocks 0..4 have theirs in the low six bits of sc[j] and sc[4 + j]; 4..8 have the low nibbles in sc[4 + j]
/// (scale low, min high) and the upper two bits in what the first four left free.
#[inline(always)]
pub fn scale_and_min(sc: &[u8; 12], j: usize) -> (u8, u8) {
    if j < 4 {
        (sc[j] & 63, sc[4 + j] & 63)
    } else {
        (
            sc[4 + j] & 15 | sc[j - 4] >> 6 << 4,
            sc[4 + j] >> 4 | sc[j] >> 6 << 4,
        )
    }
}
