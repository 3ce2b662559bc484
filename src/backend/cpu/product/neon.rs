//! Tiles of 8 by 12 in NEON: 24 sums in registers. One value of the left operand times four columns, or in the matrix
//! instructions two rows times two columns. Stable Rust has no names for those of bf16, dotprod and i8mm: they are assembly.
//!
//! No tile in f16: FMLAL, which sums in f32, multiplies no more values an instruction than FMLA in f32; FMLA in f16 does, but
//! its sums lose a term that is 2048 times smaller, and the processors that have it have dotprod, which is faster again.

use std::arch::aarch64::*;
use std::arch::asm;

use super::kernel::{Kernel, Precision, Tile, by_rows};
use crate::backend::cpu::Feature;

const ROWS: usize = 8;
const COLUMNS: usize = 12;
/// Columns of a tile in vectors.
const VECTORS: usize = COLUMNS / 4;
/// Rows and columns of a tile in pairs.
const ROW_PAIRS: usize = ROWS / 2;
const COLUMN_PAIRS: usize = COLUMNS / 2;

pub(super) const KERNELS: &[Kernel] = &[
    kernel("neon f32", Precision::F32, 1, &[Feature::Neon], f32_tile),
    kernel("bf16", Precision::Bf16, 2, &[Feature::Neon, Feature::Bf16], bf16_tile),
    kernel("i8mm", Precision::Int8, 2, &[Feature::Neon, Feature::I8mm], i8mm_tile),
    kernel("dotprod", Precision::Int8, 1, &[Feature::Neon, Feature::DotProd], dotprod_tile),
];

const fn kernel(
    name: &'static str,
    precision: Precision,
    together: usize,
    needs: &'static [Feature],
    tile: unsafe fn(&Tile),
) -> Kernel {
    Kernel { name, precision, rows: ROWS, columns: COLUMNS, together, unsigned_left: false, needs, tile }
}

/// `$call` with `LANE` as a constant, which is known once the loop over the rows is unrolled.
macro_rules! by_lane {
    ($row:expr, $call:ident($($arg:expr),*)) => {
        match $row % 4 {
            0 => $call::<0>($($arg),*),
            1 => $call::<1>($($arg),*),
            2 => $call::<2>($($arg),*),
            _ => $call::<3>($($arg),*),
        }
    };
}

/// Up to four values from `at` on.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn up_to_four(count: usize, at: *const u32) -> uint32x4_t {
    let none = vdup_n_u32(0);
    // Safety: `count` values can be read.
    unsafe {
        match count {
            0 => vdupq_n_u32(0),
            1 => vcombine_u32(vld1_lane_u32::<0>(at, none), none),
            2 => vcombine_u32(vld1_u32(at), none),
            3 => vcombine_u32(vld1_u32(at), vld1_lane_u32::<0>(at.add(2), none)),
            _ => vld1q_u32(at),
        }
    }
}

/// A group of every row.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn of_rows<const ROWS: usize>(at: *const u32) -> [uint32x4_t; 2] {
    // Safety: `ROWS` values can be read.
    unsafe { [up_to_four(ROWS, at), up_to_four(ROWS.saturating_sub(4), at.wrapping_add(4))] }
}

/// Two groups of every row, those of two rows together.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn of_row_pairs<const ROWS: usize>(at: *const u32) -> [uint32x4_t; ROW_PAIRS] {
    let mut pairs = [vdupq_n_u32(0); ROW_PAIRS];
    for (pair, groups) in pairs.iter_mut().enumerate() {
        // Safety: two times `ROWS` values can be read.
        *groups = unsafe { up_to_four((2 * ROWS).saturating_sub(4 * pair), at.wrapping_add(4 * pair)) };
    }
    pairs
}

/// sum + a[LANE]·b
#[inline]
#[target_feature(enable = "neon")]
fn fmla<const LANE: i32>(sum: float32x4_t, a: uint32x4_t, b: uint32x4_t) -> float32x4_t {
    vfmaq_laneq_f32::<LANE>(sum, vreinterpretq_f32_u32(b), vreinterpretq_f32_u32(a))
}

/// a[LANE]·b
#[inline]
#[target_feature(enable = "neon")]
fn fmul<const LANE: i32>(a: uint32x4_t, b: float32x4_t) -> float32x4_t {
    vmulq_laneq_f32::<LANE>(b, vreinterpretq_f32_u32(a))
}

/// sum + the four products of a[LANE] with each group of b
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot<const LANE: i32>(mut sum: int32x4_t, a: uint32x4_t, b: uint32x4_t) -> int32x4_t {
    // Safety: an instruction on registers, which the processor has.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {b:v}.16b, {a:v}.4b[{lane}]",
            sum = inout(vreg) sum, a = in(vreg) a, b = in(vreg) b, lane = const LANE,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// sum + a·bᵀ for two rows of eight int8 in each operand
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn smmla(mut sum: int32x4_t, a: uint32x4_t, b: uint32x4_t) -> int32x4_t {
    // Safety: as above.
    unsafe {
        asm!(
            "smmla {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum, a = in(vreg) a, b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// sum + a·bᵀ for two rows of four bf16 in each operand. Rounds to odd, subnormal numbers to 0.
#[inline]
#[target_feature(enable = "neon,bf16")]
fn bfmmla(mut sum: float32x4_t, a: uint32x4_t, b: uint32x4_t) -> float32x4_t {
    // Safety: as above.
    unsafe {
        asm!(
            "bfmmla {sum:v}.4s, {a:v}.8h, {b:v}.8h",
            sum = inout(vreg) sum, a = in(vreg) a, b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// Sums of two rows and two columns each to rows of four columns.
macro_rules! rows_of_pairs {
    ($sums:expr, $to_pairs:ident, $from_pairs:ident, $zero:expr) => {{
        let mut rows = [[$zero; VECTORS]; ROWS];
        for (pair, sums) in $sums.iter().enumerate() {
            for (vector, sums) in sums.as_chunks::<2>().0.iter().enumerate() {
                let (first, second) = ($to_pairs(sums[0]), $to_pairs(sums[1]));
                rows[2 * pair][vector] = $from_pairs(vzip1q_f64(first, second));
                rows[2 * pair + 1][vector] = $from_pairs(vzip2q_f64(first, second));
            }
        }
        rows
    }};
}

/// c = sums, or c + sums
#[inline]
#[target_feature(enable = "neon")]
unsafe fn put(tile: &Tile, rows: usize, sums: &[[float32x4_t; VECTORS]]) {
    for (row, sums) in sums.iter().enumerate().take(rows) {
        for (vector, sum) in sums.iter().enumerate() {
            // Safety: row and columns lie in the tile.
            unsafe {
                let c = tile.c.add(row * tile.c_stride + 4 * vector);
                let old = if tile.keep { vld1q_f32(c) } else { vdupq_n_f32(0.0) };
                vst1q_f32(c, vaddq_f32(old, *sum));
            }
        }
    }
}

/// c = sums of a block times their scales, or c + that after the first block
#[inline]
#[target_feature(enable = "neon")]
unsafe fn put_block<const ROWS: usize>(tile: &Tile, block: usize, sums: &[[int32x4_t; VECTORS]]) {
    let keep = tile.keep || block > 0;
    // Safety: rows and columns lie in the tile, scales are there for each of them.
    unsafe {
        let left = of_rows::<ROWS>(tile.a_scales.add(block * ROWS).cast());
        let right = tile.b_scales.add(block * tile.b_scales_block);
        let right: [_; VECTORS] = std::array::from_fn(|vector| vld1q_f32(right.add(4 * vector)));
        for (row, sums) in sums.iter().enumerate().take(ROWS) {
            for (vector, sum) in sums.iter().enumerate() {
                let c = tile.c.add(row * tile.c_stride + 4 * vector);
                let old = if keep { vld1q_f32(c) } else { vdupq_n_f32(0.0) };
                let factor = by_lane!(row, fmul(left[row / 4], right[vector]));
                vst1q_f32(c, vfmaq_f32(old, vcvtq_f32_s32(*sum), factor));
            }
        }
    }
}

/// Safety: as for every kernel, the pointers of `tile` reach as far as its lengths say; the processor has the features.
unsafe fn f32_tile(tile: &Tile) {
    unsafe { by_rows!(tile, f32_rows: 1 2 3 4 5 6 7 8) }
}

#[target_feature(enable = "neon")]
unsafe fn f32_rows<const ROWS: usize>(tile: &Tile) {
    let mut sums = [[vdupq_n_f32(0.0); VECTORS]; ROWS];
    // Safety: all reads and writes lie within the lengths documented on `Tile`.
    unsafe {
        let mut a = tile.a;
        for block in 0..tile.blocks {
            let mut b = tile.b.add(block * tile.b_block);
            for _ in 0..tile.steps {
                let rows = of_rows::<ROWS>(a);
                let columns: [_; VECTORS] = std::array::from_fn(|vector| vld1q_u32(b.add(4 * vector)));
                for (row, sums) in sums.iter_mut().enumerate() {
                    for (sum, &b) in sums.iter_mut().zip(&columns) {
                        *sum = by_lane!(row, fmla(*sum, rows[row / 4], b));
                    }
                }
                a = a.add(ROWS);
                b = b.add(COLUMNS);
            }
        }
        put(tile, ROWS, &sums);
    }
}

/// Safety: as above.
unsafe fn bf16_tile(tile: &Tile) {
    unsafe { by_rows!(tile, bf16_rows: 1 2 3 4 5 6 7 8) }
}

#[target_feature(enable = "neon,bf16")]
unsafe fn bf16_rows<const ROWS: usize>(tile: &Tile) {
    let mut sums = [[vdupq_n_f32(0.0); COLUMN_PAIRS]; ROW_PAIRS];
    // Safety: as above.
    unsafe {
        let mut a = tile.a;
        for block in 0..tile.blocks {
            let mut b = tile.b.add(block * tile.b_block);
            for _ in 0..tile.steps / 2 {
                let rows = of_row_pairs::<ROWS>(a);
                for column in 0..COLUMN_PAIRS {
                    let b = vld1q_u32(b.add(4 * column));
                    for (sums, a) in sums.iter_mut().zip(rows).take(ROWS.div_ceil(2)) {
                        sums[column] = bfmmla(sums[column], a, b);
                    }
                }
                a = a.add(2 * ROWS);
                b = b.add(2 * COLUMNS);
            }
        }
        let sums = rows_of_pairs!(sums, vreinterpretq_f64_f32, vreinterpretq_f32_f64, vdupq_n_f32(0.0));
        put(tile, ROWS, &sums);
    }
}

/// Safety: as above.
unsafe fn i8mm_tile(tile: &Tile) {
    unsafe { by_rows!(tile, i8mm_rows: 1 2 3 4 5 6 7 8) }
}

#[target_feature(enable = "neon,i8mm")]
unsafe fn i8mm_rows<const ROWS: usize>(tile: &Tile) {
    // Safety: as above.
    unsafe {
        let mut a = tile.a;
        for block in 0..tile.blocks {
            let mut sums = [[vdupq_n_s32(0); COLUMN_PAIRS]; ROW_PAIRS];
            let mut b = tile.b.add(block * tile.b_block);
            for _ in 0..tile.steps / 2 {
                let rows = of_row_pairs::<ROWS>(a);
                for column in 0..COLUMN_PAIRS {
                    let b = vld1q_u32(b.add(4 * column));
                    for (sums, a) in sums.iter_mut().zip(rows).take(ROWS.div_ceil(2)) {
                        sums[column] = smmla(sums[column], a, b);
                    }
                }
                a = a.add(2 * ROWS);
                b = b.add(2 * COLUMNS);
            }
            let sums = rows_of_pairs!(sums, vreinterpretq_f64_s32, vreinterpretq_s32_f64, vdupq_n_s32(0));
            put_block::<ROWS>(tile, block, &sums);
        }
    }
}

/// Safety: as above.
unsafe fn dotprod_tile(tile: &Tile) {
    unsafe { by_rows!(tile, dotprod_rows: 1 2 3 4 5 6 7 8) }
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn dotprod_rows<const ROWS: usize>(tile: &Tile) {
    // Safety: as above.
    unsafe {
        let mut a = tile.a;
        for block in 0..tile.blocks {
            let mut sums = [[vdupq_n_s32(0); VECTORS]; ROWS];
            let mut b = tile.b.add(block * tile.b_block);
            for _ in 0..tile.steps {
                let rows = of_rows::<ROWS>(a);
                let columns: [_; VECTORS] = std::array::from_fn(|vector| vld1q_u32(b.add(4 * vector)));
                for (row, sums) in sums.iter_mut().enumerate() {
                    for (sum, &b) in sums.iter_mut().zip(&columns) {
                        *sum = by_lane!(row, sdot(*sum, rows[row / 4], b));
                    }
                }
                a = a.add(ROWS);
                b = b.add(COLUMNS);
            }
            put_block::<ROWS>(tile, block, &sums);
        }
    }
}
