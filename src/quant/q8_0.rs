//! Q8_0: 32 elements in 34 bytes, y = d·q.
//!
//! ```text
//! | d f16 | qs 32 × i8 |
//! ```

use bytemuck::AnyBitPattern;

use super::block::{Half, each_block};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub struct Block {
    d: Half,
    qs: [i8; 32],
}

pub fn unpack(packed: &[u8], values: &mut [f32]) {
    each_block(packed, values, |block: &Block, values: &mut [f32; 32]| {
        let d = block.d.to_f32();
        for (value, q) in values.iter_mut().zip(block.qs) {
            *value = d * q as f32;
        }
    });
}
