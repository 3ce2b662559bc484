//! Q4_0: 32 elements in 18 bytes, y = d·(q − 8).
//!
//! ```text
//! | d f16 | qs 16 bytes: low nibbles are elements 0..16, high nibbles 16..32 |
//! ```

use bytemuck::{AnyBitPattern, NoUninit};

use crate::backend::cpu::vectorised;

use super::block::{Half, each_block, each_packed, extreme, inverse};

#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub struct Block {
    d: Half,
    qs: [u8; 16],
}

vectorised! {
    pub fn unpack(packed: &[u8], values: &mut [f32]) {
        each_block(packed, values, |block: &Block, values: &mut [f32; 32]| {
            let d = block.d.to_f32();
            for (i, q) in block.qs.iter().enumerate() {
                values[i] = d * ((q & 15) as f32 - 8.0);
                values[16 + i] = d * ((q >> 4) as f32 - 8.0);
            }
        });
    }
}

/// d is a −8th of the extreme value, so that this one is kept to f16's digits.
pub fn pack(values: &[f32], packed: &mut [u8]) {
    each_packed(values, packed, |values: &[f32; 32], block: &mut Block| {
        let d = extreme(values) / -8.0;
        let (d, inverse) = (Half::of(d), inverse(d));
        let q = |value: f32| ((value * inverse + 8.5) as u8).min(15);
        let qs = std::array::from_fn(|i| q(values[i]) | q(values[16 + i]) << 4);
        *block = Block { d, qs };
    });
}
