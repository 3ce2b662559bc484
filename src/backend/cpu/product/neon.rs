//! Tiles of 8 by 12 in NEON: 24 sums in registers. One value of the left operand times four columns, or in the matrix
//! instructions two rows times two columns. Stable Rust has no names for those of bf16, dotprod and i8mm: they are assembly.
//!
//! No tile in f16: FMLAL, which sums in f32, multiplies no more values an instruction than FMLA in f32; FMLA in f16 does, but
//! its sums lose a term that is 2048 times smaller, and the processors that have it have dotprod, which is faster again.
//!
//! Loops over rows and columns are written out by macros: where the compiler leaves one, it keeps the sums in memory.

use std::arch::aarch64::*;
use std::arch::asm;

use super::kernel::{Kernel, Precision, Tile, by_rows};
use crate::backend::cpu::Feature;

const MOST_ROWS: usize = 8;
const COLUMNS: usize = 12;

pub(super) const KERNELS: &[Kernel] = &[
    kernel("neon f32", Precision::F32, 1, &[Feature::Neon], f32_tile),
    kernel(
        "bf16",
        Precision::Bf16,
        2,
        &[Feature::Neon, Feature::Bf16],
        bf16_tile,
    ),
    kernel(
        "i8mm",
        Precision::Int8,
        2,
        &[Feature::Neon, Feature::I8mm],
        i8mm_tile,
    ),
    kernel(
        "dotprod",
        Precision::Int8,
        1,
        &[Feature::Neon, Feature::DotProd],
        dotprod_tile,
    ),
];

const fn kernel(
    name: &'static str,
    precision: Precision,
    together: usize,
    needs: &'static [Feature],
    tile: unsafe fn(&Tile),
) -> Kernel {
    Kernel {
        name,
        precision,
        rows: MOST_ROWS,
        columns: COLUMNS,
        together,
        unsigned_left: false,
        needs,
        tile,
    }
}

/// The bits of four f32 or i32, or of four groups.
type Bits = uint32x4_t;
/// Sums of a row.
type Row = [Bits; 3];
/// Sums of two rows: both of columns 0 and 1, of columns 2 and 3 and so on.
type RowPair = [Bits; 6];

/// sum + a[LANE]·b
#[inline]
#[target_feature(enable = "neon")]
fn fmla<const LANE: i32>(sum: Bits, a: Bits, b: Bits) -> Bits {
    let (a, b) = (vreinterpretq_f32_u32(a), vreinterpretq_f32_u32(b));
    vreinterpretq_u32_f32(vfmaq_laneq_f32::<LANE>(vreinterpretq_f32_u32(sum), b, a))
}

/// sum + the four products of a[LANE] with each group of b
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot<const LANE: i32>(mut sum: Bits, a: Bits, b: Bits) -> Bits {
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
fn smmla(mut sum: Bits, a: Bits, b: Bits) -> Bits {
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
fn bfmmla(mut sum: Bits, a: Bits, b: Bits) -> Bits {
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

/// Four values from `first` on of `count`, 0 for those there are not.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn four(values: *const u32, first: usize, count: usize) -> Bits {
    let none = vdup_n_u32(0);
    let at = values.wrapping_add(first);
    // Safety: the values from `first` to `count` can be read.
    unsafe {
        match count.saturating_sub(first) {
            0 => vdupq_n_u32(0),
            1 => vcombine_u32(vld1_lane_u32::<0>(at, none), none),
            2 => vcombine_u32(vld1_u32(at), none),
            3 => vcombine_u32(vld1_u32(at), vld1_lane_u32::<0>(at.add(2), none)),
            _ => vld1q_u32(at),
        }
    }
}

/// A step of the sums of rows: sums[row] = $multiply(sums[row], a[row], b).
macro_rules! multiply_rows {
    ($multiply:ident, $sums:ident, $a:ident, $b:ident; $($row:literal)*) => {
        let rows = [four($a, 0, ROWS), four($a, 4, ROWS)];
        let columns = [vld1q_u32($b), vld1q_u32($b.add(4)), vld1q_u32($b.add(8))];
        $(if $row < ROWS {
            let a = rows[$row / 4];
            $sums[$row][0] = $multiply::<{ $row % 4 }>($sums[$row][0], a, columns[0]);
            $sums[$row][1] = $multiply::<{ $row % 4 }>($sums[$row][1], a, columns[1]);
            $sums[$row][2] = $multiply::<{ $row % 4 }>($sums[$row][2], a, columns[2]);
        })*
        $a = $a.add(ROWS);
        $b = $b.add(COLUMNS);
    };
}

/// A step of the sums of pairs of rows and columns: sums[row][column] = $multiply(sums[row][column], a[row], b[column]).
macro_rules! multiply_pairs {
    ($multiply:ident, $sums:ident, $a:ident, $b:ident; $($column:literal)*) => {
        let rows = [four($a, 0, 2 * ROWS), four($a, 4, 2 * ROWS), four($a, 8, 2 * ROWS), four($a, 12, 2 * ROWS)];
        $(
            let column = vld1q_u32($b.add(4 * $column));
            $sums[0][$column] = $multiply($sums[0][$column], rows[0], column);
            if ROWS > 2 {
                $sums[1][$column] = $multiply($sums[1][$column], rows[1], column);
            }
            if ROWS > 4 {
                $sums[2][$column] = $multiply($sums[2][$column], rows[2], column);
            }
            if ROWS > 6 {
                $sums[3][$column] = $multiply($sums[3][$column], rows[3], column);
            }
        )*
        $a = $a.add(2 * ROWS);
        $b = $b.add(2 * COLUMNS);
    };
}

/// Puts the sums of every row into the tile.
macro_rules! put_rows {
    ($tile:ident, $sums:expr; $($row:literal)*) => {
        let sums = $sums;
        $(if $row < ROWS {
            put($tile, $row, sums[$row]);
        })*
    };
}

/// Sums of pairs of rows to those of rows.
#[inline]
#[target_feature(enable = "neon")]
fn rows_of([a, b, c, d]: [RowPair; MOST_ROWS / 2]) -> [Row; MOST_ROWS] {
    #[inline]
    #[target_feature(enable = "neon")]
    fn upper(a: Bits, b: Bits) -> Bits {
        vreinterpretq_u32_u64(vzip1q_u64(
            vreinterpretq_u64_u32(a),
            vreinterpretq_u64_u32(b),
        ))
    }
    #[inline]
    #[target_feature(enable = "neon")]
    fn lower(a: Bits, b: Bits) -> Bits {
        vreinterpretq_u32_u64(vzip2q_u64(
            vreinterpretq_u64_u32(a),
            vreinterpretq_u64_u32(b),
        ))
    }
    [
        [upper(a[0], a[1]), upper(a[2], a[3]), upper(a[4], a[5])],
        [lower(a[0], a[1]), lower(a[2], a[3]), lower(a[4], a[5])],
        [upper(b[0], b[1]), upper(b[2], b[3]), upper(b[4], b[5])],
        [lower(b[0], b[1]), lower(b[2], b[3]), lower(b[4], b[5])],
        [upper(c[0], c[1]), upper(c[2], c[3]), upper(c[4], c[5])],
        [lower(c[0], c[1]), lower(c[2], c[3]), lower(c[4], c[5])],
        [upper(d[0], d[1]), upper(d[2], d[3]), upper(d[4], d[5])],
        [lower(d[0], d[1]), lower(d[2], d[3]), lower(d[4], d[5])],
    ]
}

/// c = sums of f32, or c + sums
#[inline]
#[target_feature(enable = "neon")]
unsafe fn put(tile: &Tile, row: usize, sums: Row) {
    for (vector, sum) in sums.into_iter().enumerate() {
        // Safety: row and columns lie in the tile.
        unsafe {
            let c = tile.c.add(row * tile.c_stride + 4 * vector);
            let old = if tile.keep {
                vld1q_f32(c)
            } else {
                vdupq_n_f32(0.0)
            };
            vst1q_f32(c, vaddq_f32(old, vreinterpretq_f32_u32(sum)));
        }
    }
}

/// total + the i32 sums of a block times their factors a[LANE] and b, in f32
#[inline]
#[target_feature(enable = "neon")]
fn add_scaled<const LANE: i32>(total: Bits, sum: Bits, a: Bits, b: Bits) -> Bits {
    let (a, b) = (vreinterpretq_f32_u32(a), vreinterpretq_f32_u32(b));
    let (total, sum) = (
        vreinterpretq_f32_u32(total),
        vcvtq_f32_s32(vreinterpretq_s32_u32(sum)),
    );
    vreinterpretq_u32_f32(vfmaq_f32(total, sum, vmulq_laneq_f32::<LANE>(b, a)))
}

/// The same with a factor of a row for every sum.
#[inline]
#[target_feature(enable = "neon")]
fn add_scaled_pair(total: Bits, sum: Bits, a: Bits, b: Bits) -> Bits {
    let (a, b) = (vreinterpretq_f32_u32(a), vreinterpretq_f32_u32(b));
    let (total, sum) = (
        vreinterpretq_f32_u32(total),
        vcvtq_f32_s32(vreinterpretq_s32_u32(sum)),
    );
    vreinterpretq_u32_f32(vfmaq_f32(total, sum, vmulq_f32(b, a)))
}

/// Adds the sums of a block of rows to the totals.
macro_rules! add_rows {
    ($totals:ident, $sums:ident, $a:expr, $b:expr; $($row:literal)*) => {
        let (a, b): (*const u32, *const u32) = ($a.cast(), $b.cast());
        let rows = [four(a, 0, ROWS), four(a, 4, ROWS)];
        let columns = [vld1q_u32(b), vld1q_u32(b.add(4)), vld1q_u32(b.add(8))];
        $(if $row < ROWS {
            let a = rows[$row / 4];
            $totals[$row][0] = add_scaled::<{ $row % 4 }>($totals[$row][0], $sums[$row][0], a, columns[0]);
            $totals[$row][1] = add_scaled::<{ $row % 4 }>($totals[$row][1], $sums[$row][1], a, columns[1]);
            $totals[$row][2] = add_scaled::<{ $row % 4 }>($totals[$row][2], $sums[$row][2], a, columns[2]);
        })*
    };
}

/// The same for pairs of rows and columns.
macro_rules! add_pairs {
    ($totals:ident, $sums:ident, $a:expr, $b:expr; $($column:literal)*) => {
        let (a, b): (*const u32, *const u32) = ($a.cast(), $b.cast());
        let (first, last) = (four(a, 0, ROWS), four(a, 4, ROWS));
        let rows = [vzip1q_u32(first, first), vzip2q_u32(first, first), vzip1q_u32(last, last), vzip2q_u32(last, last)];
        $(
            let column = vreinterpretq_u32_u64(vld1q_dup_u64(b.add(2 * $column).cast()));
            $totals[0][$column] = add_scaled_pair($totals[0][$column], $sums[0][$column], rows[0], column);
            if ROWS > 2 {
                $totals[1][$column] = add_scaled_pair($totals[1][$column], $sums[1][$column], rows[1], column);
            }
            if ROWS > 4 {
                $totals[2][$column] = add_scaled_pair($totals[2][$column], $sums[2][$column], rows[2], column);
            }
            if ROWS > 6 {
                $totals[3][$column] = add_scaled_pair($totals[3][$column], $sums[3][$column], rows[3], column);
            }
        )*
    };
}

/// Safety: as for every kernel, the pointers of `tile` reach as far as its lengths say; the processor has the features.
unsafe fn f32_tile(tile: &Tile) {
    unsafe { by_rows!(tile, f32_rows: 1 2 3 4 5 6 7 8) }
}

#[target_feature(enable = "neon")]
unsafe fn f32_rows<const ROWS: usize>(tile: &Tile) {
    let mut sums = [[vdupq_n_u32(0); 3]; MOST_ROWS];
    // Safety: all reads and writes lie within the lengths documented on `Tile`.
    unsafe {
        let mut a = tile.a;
        for block in 0..tile.blocks {
            let mut b = tile.b.add(block * tile.b_block);
            for _ in 0..tile.steps {
                multiply_rows!(fmla, sums, a, b; 0 1 2 3 4 5 6 7);
            }
        }
        put_rows!(tile, sums; 0 1 2 3 4 5 6 7);
    }
}

/// Safety: as above.
unsafe fn bf16_tile(tile: &Tile) {
    unsafe { by_rows!(tile, bf16_rows: 1 2 3 4 5 6 7 8) }
}

#[target_feature(enable = "neon,bf16")]
unsafe fn bf16_rows<const ROWS: usize>(tile: &Tile) {
    let mut sums = [[vdupq_n_u32(0); 6]; MOST_ROWS / 2];
    // Safety: as above.
    unsafe {
        let mut a = tile.a;
        for block in 0..tile.blocks {
            let mut b = tile.b.add(block * tile.b_block);
            for _ in 0..tile.steps / 2 {
                multiply_pairs!(bfmmla, sums, a, b; 0 1 2 3 4 5);
            }
        }
        put_rows!(tile, rows_of(sums); 0 1 2 3 4 5 6 7);
    }
}

/// Safety: as above.
unsafe fn i8mm_tile(tile: &Tile) {
    unsafe { by_rows!(tile, i8mm_rows: 1 2 3 4 5 6 7 8) }
}

#[target_feature(enable = "neon,i8mm")]
unsafe fn i8mm_rows<const ROWS: usize>(tile: &Tile) {
    let mut totals = [[vdupq_n_u32(0); 6]; MOST_ROWS / 2];
    // Safety: as above; every block has a factor for every row and column.
    unsafe {
        let mut a = tile.a;
        for block in 0..tile.blocks {
            let mut sums = [[vdupq_n_u32(0); 6]; MOST_ROWS / 2];
            let mut b = tile.b.add(block * tile.b_block);
            for _ in 0..tile.steps / 2 {
                multiply_pairs!(smmla, sums, a, b; 0 1 2 3 4 5);
            }
            let (a_scales, b_scales) = (
                tile.a_scales.add(block * ROWS),
                tile.b_scales.add(block * tile.b_scales_block),
            );
            add_pairs!(totals, sums, a_scales, b_scales; 0 1 2 3 4 5);
        }
        put_rows!(tile, rows_of(totals); 0 1 2 3 4 5 6 7);
    }
}

/// Safety: as above.
unsafe fn dotprod_tile(tile: &Tile) {
    unsafe { by_rows!(tile, dotprod_rows: 1 2 3 4 5 6 7 8) }
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn dotprod_rows<const ROWS: usize>(tile: &Tile) {
    let mut totals = [[vdupq_n_u32(0); 3]; MOST_ROWS];
    // Safety: as above.
    unsafe {
        let mut a = tile.a;
        for block in 0..tile.blocks {
            let mut sums = [[vdupq_n_u32(0); 3]; MOST_ROWS];
            let mut b = tile.b.add(block * tile.b_block);
            for _ in 0..tile.steps {
                multiply_rows!(sdot, sums, a, b; 0 1 2 3 4 5 6 7);
            }
            let (a_scales, b_scales) = (
                tile.a_scales.add(block * ROWS),
                tile.b_scales.add(block * tile.b_scales_block),
            );
            add_rows!(totals, sums, a_scales, b_scales; 0 1 2 3 4 5 6 7);
        }
        put_rows!(tile, totals; 0 1 2 3 4 5 6 7);
    }
}
