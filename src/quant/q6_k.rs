//! Q6_K: 256 elements in 210 bytes, 16 sub-blocks of 16, y = (d·scale)·(q − 32).
//!
//! ```text
//! | ql 128 bytes: low 4 bits | qh 64 bytes: high 2 bits | sc 16 × i8 | d f16 |
//! ```
//! Of half h, run t of 32 elements (t = 0..4) takes the nibbles of ql[64h + 32(t % 2)..], low ones for t < 2, and
//! bits 2t and 2t + 1 of qh[32h..].

use bytemuck::{AnyBitPattern, NoUninit};

use crate::backend::cpu::vectorised;

use super::block::{Half, alone, each_block, each_packed};
use super::search::{Scaled, nearest, search_scales};

#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub struct Block {
    ql: [u8; 128],
    qh: [u8; 64],
    sc: [i8; 16],
    d: Half,
}

vectorised! {
    pub fn unpack(packed: &[u8], values: &mut [f32]) {
        each_block(packed, values, |block: &Block, values: &mut [f32; 256]| {
            let d = block.d.to_f32();
            let halves = values.as_chunks_mut::<128>().0.iter_mut();
            for (half, values) in halves.enumerate() {
                let ql = &block.ql.as_chunks::<64>().0[half];
                let qh = &block.qh.as_chunks::<32>().0[half];
                let scales = &block.sc.as_chunks::<8>().0[half];
                let mut q = [0u8; 128];
                for l in 0..32 {
                    q[l] = (ql[l] & 15) | (qh[l] & 3) << 4;
                    q[32 + l] = (ql[32 + l] & 15) | (qh[l] >> 2 & 3) << 4;
                    q[64 + l] = (ql[l] >> 4) | (qh[l] >> 4 & 3) << 4;
                    q[96 + l] = (ql[32 + l] >> 4) | (qh[l] >> 6) << 4;
                }
                for (k, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                    let values = alone(values);
                    let scale = d * scales[k] as f32;
                    for (value, q) in values.iter_mut().zip(&q[16 * k..]) {
                        *value = scale * (*q as f32 - 32.0);
                    }
                }
            }
        });
    }
}

/// Scales of least squared error, as [`search_scales`] finds them.
pub fn pack(values: &[f32], packed: &mut [u8]) {
    // The extreme value on −17 to −31, which runs of a file have, and finer around the −32 at the end.
    let tries = || {
        (17..31)
            .map(|at| -at as f32)
            .chain((0..13).map(|i| -31.0 - i as f32 * 0.25))
    };
    let level = |t| nearest(t, -32.0, 31.0);
    each_packed(values, packed, |values: &[f32; 256], block: &mut Block| {
        let found: Scaled<16, 16> = search_scales(values, (-128.0, 127.0), tries, level);
        let q = |at: usize| (found.levels.as_flattened()[at] + 32.0) as u8;
        *block = Block {
            ql: std::array::from_fn(|at| {
                let first = at / 64 * 128 + at % 64;
                q(first) & 15 | (q(first + 64) & 15) << 4
            }),
            qh: std::array::from_fn(|at| {
                let first = at / 32 * 128 + at % 32;
                (0..4).fold(0, |byte, run| byte | q(first + 32 * run) >> 4 << (2 * run))
            }),
            sc: found.scales.map(|scale| scale as i8),
            d: found.d,
        };
    });
}
