//! What the block formats share: the walk over packed blocks and the f16 numbers inside them.
//! A block is a `#[repr(C)]` struct of bytes: its size is that of the file, its alignment 1, so packed bytes are cast, never copied.
//! Unpacking goes in two steps, small numbers by constant shifts on bytes, then scales: that vectorises without any target feature.

use bytemuck::AnyBitPattern;
use half::f16;

/// Calls `unpack` with each block of `packed` and its `N` places in `values`.
///
/// The caller has checked that both hold the same whole number of blocks ([`super::Format::unpack`] does).
/// Fixed-size references are what lets the compiler drop the bounds checks and vectorise `unpack`.
#[inline(always)]
pub fn each_block<B: AnyBitPattern, const N: usize>(
    packed: &[u8],
    values: &mut [f32],
    unpack: impl Fn(&B, &mut [f32; N]),
) {
    const { assert!(align_of::<B>() == 1, "blocks lie at any address") };
    let blocks: &[B] = bytemuck::cast_slice(packed);
    for (block, values) in blocks.iter().zip(values.as_chunks_mut().0) {
        unpack(block, values);
    }
}

/// A little-endian f16 at any address.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(transparent)]
pub struct Half(pub [u8; 2]);

impl Half {
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        f16::from_le_bytes(self.0).to_f32()
    }
}
