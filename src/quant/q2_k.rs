//! Q2_K: 256 elements in 84 bytes, 16 sub-blocks of 16, y = (d·scale)·q − dmin·min.
//!
//! ```text
//! | sc 16 bytes: scale in the low nibble, min in the high one | qs 64 bytes | d f16 | dmin f16 |
//! ```
//! Byte l of the 32 bytes of half h holds elements 128h + 32s + l in its bits 2s and 2s + 1, s = 0..4.

use bytemuck::{AnyBitPattern, NoUninit};

use crate::backend::cpu::vectorised;

use super::block::{Half, alone, each_block, each_packed};
use super::search::{Ranged, search_ranges};

#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub struct Block {
    sc: [u8; 16],
    qs: [u8; 64],
    d: Half,
    dmin: Half,
}

vectorised! {
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
                    let values = alone(values);
                    let scale = d * (sc[k] & 15) as f32;
                    let min = dmin * (sc[k] >> 4) as f32;
                    for (value, q) in values.iter_mut().zip(&q[16 * k..]) {
                        *value = scale * *q as f32 - min;
                    }
                }
            }
        });
    }
}

/// Scales and minima of least squared error, as [`search_ranges`] finds them.
pub fn pack(values: &[f32], packed: &mut [u8]) {
    // Spans of 2 to 4.4 levels: a range larger than the three steps there are cuts the extremes off.
    let tries = || {
        [1.0]
            .into_iter()
            .chain((0..25).map(|i| 2.0 + i as f32 * 0.1))
    };
    each_packed(values, packed, |values: &[f32; 256], block: &mut Block| {
        let found: Ranged<16, 16> = search_ranges(values, 3.0, 15.0, tries);
        let q: &[u8] = found.levels.as_flattened();
        *block = Block {
            sc: std::array::from_fn(|k| found.scales[k] | found.mins[k] << 4),
            qs: std::array::from_fn(|at| {
                let q = &q[at / 32 * 128 + at % 32..];
                q[0] | q[32] << 2 | q[64] << 4 | q[96] << 6
            }),
            d: found.d,
            dmin: found.dmin,
        };
    });
}
