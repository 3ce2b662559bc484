//! Q3_K: 256 elements in 110 bytes, 16 sub-blocks of 16, y = (d·(scale − 32))·q with q in −4..4.
//!
//! ```text
//! | hmask 32 bytes | qs 64 bytes | sc 12 bytes: 16 six-bit scales | d f16 |
//! ```
//! Byte l of the 32 bytes of half h holds elements 128h + 32s + l in its bits 2s and 2s + 1, s = 0..4; 4 is taken off
//! where bit 4h + s of hmask[l] is **clear**. Scale k: low 4 bits in nibble k of sc[0..8] (all low nibbles first),
//! high 2 bits in bits 2(k / 4) and 2(k / 4) + 1 of sc[8 + k % 4].

use bytemuck::{AnyBitPattern, NoUninit};

use crate::backend::cpu::vectorised;

use super::block::{Half, each_block, each_packed};
use super::search::{Scaled, nearest, search_scales};

#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub struct Block {
    hmask: [u8; 32],
    qs: [u8; 64],
    sc: [u8; 12],
    d: Half,
}

vectorised! {
    pub fn unpack(packed: &[u8], values: &mut [f32]) {
        each_block(packed, values, |block: &Block, values: &mut [f32; 256]| {
            let d = block.d.to_f32();
            let halves = values.as_chunks_mut::<128>().0.iter_mut();
            for (half, values) in halves.enumerate() {
                let qs = &block.qs.as_chunks::<32>().0[half];
                let mut q = [0u8; 128];
                for l in 0..32 {
                    let high = block.hmask[l] >> (4 * half);
                    q[l] = (qs[l] & 3) | (high & 1) << 2;
                    q[32 + l] = (qs[l] >> 2 & 3) | (high >> 1 & 1) << 2;
                    q[64 + l] = (qs[l] >> 4 & 3) | (high >> 2 & 1) << 2;
                    q[96 + l] = (qs[l] >> 6) | (high >> 3 & 1) << 2;
                }
                for (k, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                    let scale = d * (scale(&block.sc, 8 * half + k) as f32 - 32.0);
                    for (value, q) in values.iter_mut().zip(&q[16 * k..]) {
                        *value = scale * (*q as f32 - 4.0);
                    }
                }
            }
        });
    }
}

/// Scales of least squared error, as [`search_scales`] finds them.
pub fn pack(values: &[f32], packed: &mut [u8]) {
    // The extreme value on −2 to −5.5 or on 2 to 5.5, beyond −4 and 3 it is cut off.
    let tries = || (8..23).flat_map(|i| [i as f32 * -0.25, i as f32 * 0.25]);
    let level = |t| nearest(t, -4.0, 3.0);
    each_packed(values, packed, |values: &[f32; 256], block: &mut Block| {
        let found: Scaled<16, 16> = search_scales(values, (-32.0, 31.0), tries, level);
        let q = |at: usize| (found.levels.as_flattened()[at] + 4.0) as u8;
        let scale = |k: usize| (found.scales[k] + 32) as u8;
        *block = Block {
            hmask: std::array::from_fn(|l| {
                (0..8).fold(0, |mask, run| mask | (q(32 * run + l) >> 2) << run)
            }),
            qs: std::array::from_fn(|at| {
                let first = at / 32 * 128 + at % 32;
                (0..4).fold(0, |byte, run| byte | (q(first + 32 * run) & 3) << (2 * run))
            }),
            sc: std::array::from_fn(|at| match at.checked_sub(8) {
                None => scale(at) & 15 | (scale(8 + at) & 15) << 4,
                Some(at) => (0..4).fold(0, |byte, k| byte | scale(4 * k + at) >> 4 << (2 * k)),
            }),
            d: found.d,
        };
    });
}

#[inline(always)]
fn scale(sc: &[u8; 12], k: usize) -> u8 {
    let low = sc[k % 8] >> (k / 8 * 4) & 15;
    let high = sc[8 + k % 4] >> (k / 4 * 2) & 3;
    low | high << 4
}
