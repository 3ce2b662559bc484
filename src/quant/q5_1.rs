//! Q5_1: 32 elements in 24 bytes, y = d·q + m.
//!
//! ```text
//! | d f16 | m f16 | qh u32: bit i is bit 4 of element i | qs 16 bytes: low nibbles are elements 0..16, high nibbles 16..32 |
//! ```

use bytemuck::{AnyBitPattern, NoUninit};

use crate::backend::cpu::vectorised;

use super::block::{Half, each_block, each_packed, inverse, range};
use super::q5_0::{parts, quants};

#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub struct Block {
    d: Half,
    m: Half,
    qh: [u8; 4],
    qs: [u8; 16],
}

vectorised! {
    pub fn unpack(packed: &[u8], values: &mut [f32]) {
        each_block(packed, values, |block: &Block, values: &mut [f32; 32]| {
            let (d, m) = (block.d.to_f32(), block.m.to_f32());
            let q = quants(block.qh, &block.qs);
            for (value, q) in values.iter_mut().zip(q) {
                *value = d * q as f32 + m;
            }
        });
    }
}

/// d is a 31st of the distance between the extremes.
pub fn pack(values: &[f32], packed: &mut [u8]) {
    each_packed(values, packed, |values: &[f32; 32], block: &mut Block| {
        let (least, most) = range(values);
        let d = (most - least) / 31.0;
        let inverse = inverse(d);
        let q = |value: f32| (((value - least) * inverse + 0.5) as u8).min(31);
        let (qh, qs) = parts(values.map(q));
        let (d, m) = (Half::of(d), Half::of(least));
        *block = Block { d, m, qh, qs };
    });
}
