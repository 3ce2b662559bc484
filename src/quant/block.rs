//! What the block formats share: the walk over packed blocks and the f16 numbers inside them.
//! A block is a `#[repr(C)]` struct of bytes: its size is that of the file, its alignment 1, so packed bytes are cast, never copied.
//! Unpacking goes in two steps, small numbers by constant shifts on bytes, then scales: that vectorises without any target feature.

use std::hint::black_box;

use bytemuck::{AnyBitPattern, NoUninit};
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
        unpack(if N > 1 { alone(block) } else { block }, values);
    }
}

/// The same reference, whose origin is hidden from the compiler: where it sees that more blocks follow, it puts them side
/// by side in the lanes of vectors, and gathers and scatters.
#[inline(always)]
pub fn alone<T>(reference: T) -> T {
    black_box(reference)
}

/// Calls `pack` with each `N` values and the block of `packed` they go into; under the same condition.
#[inline(always)]
pub fn each_packed<B: AnyBitPattern + NoUninit, const N: usize>(
    values: &[f32],
    packed: &mut [u8],
    pack: impl Fn(&[f32; N], &mut B),
) {
    const { assert!(align_of::<B>() == 1, "blocks lie at any address") };
    let blocks: &mut [B] = bytemuck::cast_slice_mut(packed);
    for (block, values) in blocks.iter_mut().zip(values.as_chunks().0) {
        pack(values, block);
    }
}

/// The value of the largest magnitude, the first of several, with its sign.
pub fn extreme(values: &[f32]) -> f32 {
    let larger = |most: f32, value: &f32| {
        if value.abs() > most.abs() {
            *value
        } else {
            most
        }
    };
    values.iter().fold(0.0, larger)
}

/// The least and the largest value.
pub fn range(values: &[f32]) -> (f32, f32) {
    let wider = |(least, most): (f32, f32), value: &f32| (least.min(*value), most.max(*value));
    values
        .iter()
        .fold((f32::INFINITY, f32::NEG_INFINITY), wider)
}

/// 1 / d, and 0 where all values are 0.
pub fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// A little-endian f16 at any address.
#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(transparent)]
pub struct Half(pub [u8; 2]);

impl Half {
    #[inline(always)]
    pub fn of(value: f32) -> Half {
        Half(f16::from_f32(value).to_le_bytes())
    }

    /// Exact: exponents are raised by a product, which does right by subnormal numbers too, and there is no call.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        const RAISE: f32 = 5.192_297e33; // 2^112
        let bits = u32::from(u16::from_le_bytes(self.0));
        let finite = f32::from_bits((bits & 0x7fff) << 13) * RAISE;
        let special = if bits & 0x7c00 == 0x7c00 {
            0x7f80_0000
        } else {
            0
        };
        f32::from_bits(finite.to_bits() | special | (bits & 0x8000) << 16)
    }
}
