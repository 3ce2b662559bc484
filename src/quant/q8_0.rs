//! Q8_0: 32 elements in 34 bytes, y = d·q.
//!
//! ```text
//! | d f16 | qs 32 × i8 |
//! ```

use bytemuck::{AnyBitPattern, NoUninit};

use crate::backend::cpu::vectorised;

use super::block::{Half, each_block, each_packed, extreme, inverse};

#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub struct Block {
    d: Half,
    qs: [i8; 32],
}

vectorised! {
    pub fn unpack(packed: &[u8], values: &mut [f32]) {
        each_block(packed, values, |block: &Block, values: &mut [f32; 32]| {
            let d = block.d.to_f32();
            for (value, q) in values.iter_mut().zip(block.qs) {
                *value = d * q as f32;
            }
        });
    }
}

/// d is a 127th of the largest magnitude; halves round away from zero.
pub fn pack(values: &[f32], packed: &mut [u8]) {
    each_packed(values, packed, |values: &[f32; 32], block: &mut Block| {
        let d = extreme(values).abs() / 127.0;
        let inverse = inverse(d);
        *block = Block {
            d: Half::of(d),
            qs: values.map(|value| (value * inverse).round() as i8),
        };
    });
}
