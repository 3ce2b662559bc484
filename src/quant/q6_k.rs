//! Q6_K: 256 elements in 210 bytes, 16 sub-blocks of 16, y = (d·scale)·(q − 32).
//!
//! ```text
//! | ql 128 bytes: low 4 bits | qh 64 bytes: high 2 bits | sc 16 × i8 | d f16 |
//! ```
//! Of half h, run t of 32 elements (t = 0..4) takes the nibbles of ql[64h + 32(t % 2)..], low ones for t < 2, and
//! bits 2t and 2t + 1 of qh[32h..].

use bytemuck::AnyBitPattern;

use super::block::{Half, each_block};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Block {
    ql: [u8; 128],
    qh: [u8; 64],
    sc: [i8; 16],
    d: Half,
}

pub fn unpack(packed: &[u8], values: &mut [f32]) {
    each_block(packed, values, |block: &Block, values: &mut [f32; 256]| {
        let d = block.d.to_f32();
        for (k, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let (half, t, side) = (k / 8, k / 2 % 4, k % 2);
            let scale = d * block.sc[k] as f32;
            let low = &block.ql.as_chunks::<16>().0[4 * half + 2 * (t % 2) + side];
            let high = &block.qh.as_chunks::<16>().0[2 * half + side];
            for i in 0..16 {
                let q = (low[i] >> (t / 2 * 4) & 15) | (high[i] >> (2 * t) & 3) << 4;
                values[i] = scale * (q as f32 - 32.0);
            }
        }
    });
}
