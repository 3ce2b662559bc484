//! Q5_0: 32 elements in 22 bytes, y = d·(q − 16).
//!
//! ```text
//! | d f16 | qh u32: bit i is bit 4 of element i | qs 16 bytes: low nibbles are elements 0..16, high nibbles 16..32 |
//! ```

use bytemuck::{AnyBitPattern, NoUninit};

use crate::backend::cpu::vectorised;

use super::block::{Half, each_block, each_packed, extreme, inverse};

#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub struct Block {
    d: Half,
    qh: [u8; 4],
    qs: [u8; 16],
}

vectorised! {
    pub fn unpack(packed: &[u8], values: &mut [f32]) {
        each_block(packed, values, |block: &Block, values: &mut [f32; 32]| {
            let d = block.d.to_f32();
            let q = quants(block.qh, &block.qs);
            for (value, q) in values.iter_mut().zip(q) {
                *value = d * (q as f32 - 16.0);
            }
        });
    }
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

/// d is a −16th of the extreme value, so that this one is kept to f16's digits.
pub fn pack(values: &[f32], packed: &mut [u8]) {
    each_packed(values, packed, |values: &[f32; 32], block: &mut Block| {
        let d = extreme(values) / -16.0;
        let (d, inverse) = (Half::of(d), inverse(d));
        let (qh, qs) = parts(values.map(|value| ((value * inverse + 16.5) as u8).min(31)));
        *block = Block { d, qh, qs };
    });
}

/// Thirty-two five-bit numbers as high bits and nibbles, for Q5_1 too.
pub fn parts(q: [u8; 32]) -> ([u8; 4], [u8; 16]) {
    let mut high = 0_u32;
    for (i, q) in q.iter().enumerate() {
        high |= u32::from(q >> 4) << i;
    }
    let low = std::array::from_fn(|i| (q[i] & 15) | (q[16 + i] & 15) << 4);
    (high.to_le_bytes(), low)
}
