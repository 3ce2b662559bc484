//! Q5_0: 32 elements in 22 bytes, y = d·(q − 16).
//!
//! ```text
//! | d f16 | qh u32: bit i is bit 4 of element i | qs 16 bytes: low nibbles are elements 0..16, high nibbles 16..32 |
//! ```

use bytemuck::AnyBitPattern;

use super::block::{Half, each_block};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Block {
    d: Half,
    qh: [u8; 4],
    qs: [u8; 16],
}

pub fn unpack(packed: &[u8], values: &mut [f32]) {
    each_block(packed, values, |block: &Block, values: &mut [f32; 32]| {
        let d = block.d.to_f32();
        let q = quants(block.qh, &block.qs);
        for (value, q) in values.iter_mut().zip(q) {
            *value = d * (q as f32 - 16.0);
        }
    });
}

/// The 32 five-bit numbers of a block, for Q5_1 too.
#[inline(always)]
pub fn quants(qh: [u8; 4], qs: &[u8; 16]) -> [u8; 32] {
    const BIT: [u8; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
    let mut q = [0; 32];
    for i in 0..16 {
        q[i] = qs[i] & 15;
        q[16 + i] = qs[i] >> 4;
    }
    for (q, high) in q.as_chunks_mut::<8>().0.iter_mut().zip(qh) {
        for i in 0..8 {
            q[i] |= if high & BIT[i] == 0 { 0 } else { 16 };
        }
    }
    q
}
