//! IQ4_XS: 256 elements in 136 bytes, 8 sub-blocks of 32, y = (d·(scale − 32))·table[q] with the table of IQ4_NL.
//!
//! ```text
//! | d f16 | sh u16: high 2 bits of 8 scales | sl 4 bytes: low 4 bits | qs 8 × 16 bytes, each as in IQ4_NL |
//! ```

use bytemuck::{AnyBitPattern, NoUninit};

use crate::backend::cpu::vectorised;

use super::block::{Half, each_block, each_packed};
use super::iq4_nl::{TRIES, level, look_up, nibbles};
use super::search::{Scaled, search_scales};

#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub struct Block {
    d: Half,
    sh: [u8; 2],
    sl: [u8; 4],
    qs: [[u8; 16]; 8],
}

vectorised! {
    pub fn unpack(packed: &[u8], values: &mut [f32]) {
        each_block(packed, values, |block: &Block, values: &mut [f32; 256]| {
            let d = block.d.to_f32();
            let sh = u16::from_le_bytes(block.sh);
            for (j, values) in values.as_chunks_mut().0.iter_mut().enumerate() {
                let low = block.sl[j / 2] >> (j % 2 * 4) & 15;
                let high = (sh >> (2 * j) & 3) as u8;
                let scale = d * ((low | high << 4) as f32 - 32.0);
                look_up(scale, &block.qs[j], values);
            }
        });
    }
}

/// Scales of least squared error, as [`search_scales`] finds them.
pub fn pack(values: &[f32], packed: &mut [u8]) {
    let tries = || TRIES.into_iter();
    each_packed(values, packed, |values: &[f32; 256], block: &mut Block| {
        let found: Scaled<32, 8> = search_scales(values, (-32.0, 31.0), tries, level);
        let scales = found.scales.map(|scale| (scale + 32) as u16);
        let high = (0..8).fold(0, |high, j| high | scales[j] >> 4 << (2 * j));
        *block = Block {
            d: found.d,
            sh: high.to_le_bytes(),
            sl: std::array::from_fn(|i| (scales[2 * i] & 15 | (scales[2 * i + 1] & 15) << 4) as u8),
            qs: found.levels.each_ref().map(nibbles),
        };
    });
}
