//! Q5_K: 256 elements in 176 bytes, 8 sub-blocks of 32, y = (d·scale)·q − dmin·min.
//!
//! ```text
//! | d f16 | dmin f16 | sc 12 bytes, as in Q4_K | qh 32 bytes | qs 128 bytes, as in Q4_K |
//! ```
//! Bit j of qh[l] is bit 4 of element l of sub-block j.

use bytemuck::{AnyBitPattern, NoUninit};

use crate::backend::cpu::vectorised;

use super::block::{Half, each_block, each_packed};
use super::q4_k::{nibbles, scale_and_min, scales_and_mins};
use super::search::{Ranged, search_ranges};

#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub struct Block {
    d: Half,
    dmin: Half,
    sc: [u8; 12],
    qh: [u8; 32],
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
}

/// Scales and minima of least squared error, as [`search_ranges`] finds them.
pub fn pack(values: &[f32], packed: &mut [u8]) {
    // Whole spans, which runs of a file have, and around the 31 steps there are finer.
    let tries = || {
        (16..30)
            .map(|span| span as f32)
            .chain((0..17).map(|i| 30.0 + i as f32 * 0.25))
    };
    each_packed(values, packed, |values: &[f32; 256], block: &mut Block| {
        let found: Ranged<32, 8> = search_ranges(values, 31.0, 63.0, tries);
        *block = Block {
            d: found.d,
            dmin: found.dmin,
            sc: scales_and_mins(&found.scales, &found.mins),
            qh: std::array::from_fn(|l| {
                (0..8).fold(0, |byte, run| byte | found.levels[run][l] >> 4 << run)
            }),
            qs: nibbles(&found.levels),
        };
    });
}
