//! IQ4_NL: 32 elements in 18 bytes, y = d·table[q]: 16 levels that lie closer together around zero.
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

/// The levels, from GGML's `kvalues_iq4nl`; IQ4_XS has the same.
const TABLE: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0,
    89.0, 113.0,
];

pub fn unpack(packed: &[u8], values: &mut [f32]) {
    each_block(packed, values, |block: &Block, values: &mut [f32; 32]| {
        look_up(block.d.to_f32(), &block.qs, values);
    });
}

/// 32 elements of scale `d`. The table is scaled first: 16 products instead of 32.
#[inline(always)]
pub fn look_up(d: f32, qs: &[u8; 16], values: &mut [f32; 32]) {
    let levels = TABLE.map(|level| d * level);
    for (i, q) in qs.iter().enumerate() {
        values[i] = levels[(q & 15) as usize];
        values[16 + i] = levels[(q >> 4) as usize];
    }
}
