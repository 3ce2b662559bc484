//! Q4_K: 256 elements in 144 bytes, 8 sub-blocks of 32, y = (d·scale)·q − dmin·min.
//!
//! ```text
//! | d f16 | dmin f16 | sc 12 bytes: 8 six-bit scales and 8 six-bit mins | qs 128 bytes |
//! ```
//! Of each run of 32 bytes of qs the low nibbles are one sub-block, the high nibbles the next.

use bytemuck::{AnyBitPattern, NoUninit};

use crate::backend::cpu::vectorised;

use super::block::{Half, each_block, each_packed};
use super::search::{Ranged, search_ranges};

#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub struct Block {
    d: Half,
    dmin: Half,
    sc: [u8; 12],
    qs: [u8; 128],
}

vectorised! {
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
}

/// Scales and minima of least squared error, as [`search_ranges`] finds them.
pub fn pack(values: &[f32], packed: &mut [u8]) {
    // Whole spans, which runs of a file have, and around the 15 steps there are finer.
    let tries = || {
        (8..14)
            .map(|span| span as f32)
            .chain((0..21).map(|i| 14.0 + i as f32 * 0.125))
    };
    each_packed(values, packed, |values: &[f32; 256], block: &mut Block| {
        let found: Ranged<32, 8> = search_ranges(values, 15.0, 63.0, tries);
        *block = Block {
            d: found.d,
            dmin: found.dmin,
            sc: scales_and_mins(&found.scales, &found.mins),
            qs: nibbles(&found.levels),
        };
    });
}

/// The low four bits of all elements as they lie in a block, for Q5_K too.
pub fn nibbles(levels: &[[u8; 32]; 8]) -> [u8; 128] {
    std::array::from_fn(|at| {
        let (pair, l) = (at / 32, at % 32);
        levels[2 * pair][l] & 15 | levels[2 * pair + 1][l] << 4
    })
}

/// The inverse of [`scale_and_min`], for Q5_K too.
pub fn scales_and_mins(scales: &[u8; 8], mins: &[u8; 8]) -> [u8; 12] {
    std::array::from_fn(|at| match at {
        0..4 => scales[at] | scales[4 + at] >> 4 << 6,
        4..8 => mins[at - 4] | mins[at] >> 4 << 6,
        _ => scales[at - 4] & 15 | mins[at - 4] << 4,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_and_minima_are_read_as_they_were_written() {
        for shift in 0..64 {
            let scales = std::array::from_fn(|j| (j * 9 + shift) as u8 & 63);
            let mins = std::array::from_fn(|j| (j * 23 + 5 * shift) as u8 & 63);
            let sc = scales_and_mins(&scales, &mins);
            for j in 0..8 {
                assert_eq!(scale_and_min(&sc, j), (scales[j], mins[j]));
            }
        }
    }
}
