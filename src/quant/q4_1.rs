//! Q4_1: 32 elements in 20 bytes, y = d·q + m.
//!
//! ```text
//! | d f16 | m f16 | qs 16 bytes: low nibbles are elements 0..16, high nibbles 16..32 |
//! ```

use bytemuck::{AnyBitPattern, NoUninit};

use crate::backend::cpu::vectorised;

use super::block::{Half, each_block, each_packed, inverse, range};

#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub struct Block {
    d: Half,
    m: Half,
    qs: [u8; 16],
}

vectorised! {
    pub fn unpack(packed: &[u8], values: &mut [f32]) {
        each_block(packed, values, |block: &Block, values: &mut [f32; 32]| {
            let (d, m) = (block.d.to_f32(), block.m.to_f32());
            for (i, q) in block.qs.iter().enumerate() {
                values[i] = d * (q & 15) as f32 + m;
                values[16 + i] = d * (q >> 4) as f32 + m;
            }
        });
    }
}

/// d is a 15th of the distance between the extremes.
pub fn pack(values: &[f32], packed: &mut [u8]) {
    each_packed(values, packed, |values: &[f32; 32], block: &mut Block| {
        let (least, most) = range(values);
        let d = (most - least) / 15.0;
        let inverse = inverse(d);
        let q = |value: f32| (((value - least) * inverse + 0.5) as u8).min(15);
        *block = Block {
            d: Half::of(d),
            m: Half::of(least),
            qs: std::array::from_fn(|i| q(values[i]) | q(values[16 + i]) << 4),
        };
    });
}
