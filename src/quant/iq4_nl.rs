//! IQ4_NL: 32 elements in 18 bytes, y = d·table[q]: 16 levels that lie closer together around zero.
//!
//! ```text
//! | d f16 | qs 16 bytes: low nibbles are elements 0..16, high nibbles 16..32 |
//! ```

use bytemuck::{AnyBitPattern, NoUninit};

use crate::backend::cpu::vectorised;

use super::block::{Half, each_block, each_packed};
use super::search::{best_scale, nearest, of_a_scale, quantised};

#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
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

vectorised! {
    pub fn unpack(packed: &[u8], values: &mut [f32]) {
        each_block(packed, values, |block: &Block, values: &mut [f32; 32]| {
            look_up(block.d.to_f32(), &block.qs, values);
        });
    }
}

/// The scale of least squared error, as [`best_scale`] finds it.
pub fn pack(values: &[f32], packed: &mut [u8]) {
    each_packed(values, packed, |values: &[f32; 32], block: &mut Block| {
        let scale = best_scale(values, TRIES.into_iter(), level).scale;
        let d = if scale == 0.0 {
            Half::of(0.0)
        } else {
            of_a_scale(scale)
        };
        let (_, levels) = quantised(values, d.to_f32(), level);
        *block = Block {
            d,
            qs: nibbles(&levels),
        };
    });
}

/// Where the value of the largest magnitude is put: on the outer levels, around the ends also between and beyond them.
pub const TRIES: [f32; 24] = [
    -152.0, -146.0, -140.0, -134.0, -127.0, -122.0, -117.0, -111.0, -104.0, -97.0, -90.0, -83.0,
    -65.0, 69.0, 83.0, 89.0, 95.0, 101.0, 107.0, 113.0, 118.0, 124.0, 130.0, 136.0,
];

/// The level nearest to t, in place 2t + 256: two levels meet at a half.
const NEAREST: [f32; 512] = {
    let mut nearest = [0.0; 512];
    let (mut at, mut q) = (0, 0);
    while at < nearest.len() {
        let t = (at as f32 - 256.0) / 2.0;
        while q < 15 && t > (TABLE[q] + TABLE[q + 1]) / 2.0 {
            q += 1;
        }
        nearest[at] = TABLE[q];
        at += 1;
    }
    nearest
};

/// The level nearest to t. Added to 2²³ the place is the last nine bits of the sum, which needs no conversion.
#[inline(always)]
pub fn level(t: f32) -> f32 {
    let place = nearest(2.0 * t + 256.0, 0.0, 511.0) + (1 << 23) as f32;
    NEAREST[(place.to_bits() & 511) as usize]
}

/// Levels as their numbers, the inverse of [`look_up`].
pub fn nibbles(levels: &[f32; 32]) -> [u8; 16] {
    let number = |level: f32| TABLE.partition_point(|below| *below < level) as u8;
    std::array::from_fn(|i| number(levels[i]) | number(levels[16 + i]) << 4)
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
