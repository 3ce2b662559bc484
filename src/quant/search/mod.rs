//! The search for the numbers of a block of 256: per run of elements the scale (and minimum) of least squared error, then
//! the f16 numbers and small whole multiples that come nearest to those.
//!
//! That is the scheme that llama.cpp's pull request 1684 (2023) introduced with these formats. Ours differs in three ways. All
//! elements weigh the same, which is the output's error for inputs of equal variance; a multiple is chosen by the error
//! of the packed elements, not by its distance from the wanted scale; and f16's rounding is part of the search.

mod ranged;
mod scaled;
mod shared;

pub use ranged::{Ranged, search_ranges};
pub use scaled::{Scaled, best_scale, quantised, search_scales};
pub use shared::of_a_scale;

/// Elements of a block.
pub const BLOCK: usize = 256;

/// Half of the least f16 number. A smaller value is nearest to zero in every format.
const VANISHING: f32 = 1.0 / (1 << 25) as f32;

/// Elements that are summed side by side, so that the sums vectorise.
const LANES: usize = 8;

/// What a coarser scale must gain more than a finer one: a run of few distinct values fits several alike, but for the
/// rounding of the sums, and only the finest of them is sure to be a multiple that a block can hold.
const COARSER: f32 = 1.0 + 5e-7;

/// The whole number nearest to `t` between `lowest` and `highest`, halves to the even one.
///
/// Adding and taking off 1.5·2²³ rounds: `f32::round_ties_even` is a call where SSE4.1 is not taken for granted.
#[inline(always)]
pub fn nearest(t: f32, lowest: f32, highest: f32) -> f32 {
    const ROUNDING: f32 = 12_582_912.0;
    let t = if t < lowest { lowest } else { t };
    let t = if t > highest { highest } else { t };
    (t + ROUNDING) - ROUNDING
}
