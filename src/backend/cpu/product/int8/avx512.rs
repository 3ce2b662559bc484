//! Sixteen rows, or sixteen columns of four rows, at a time: rounded and laid out without leaving the registers.
//! The results are those of the plain loops in the module above, bit for bit, for finite values.

use std::arch::x86_64::*;

use super::super::kernel::DEPTH;
use super::super::pack::{Columns, Laid};
use super::super::transpose::turned;
use crate::backend::cpu::lanes::LANES;

/// The lanes before `count`.
fn lanes(count: usize) -> __mmask16 {
    ((1u32 << count.min(LANES)) - 1) as __mmask16
}

/// `values`: [rows, terms], to `into`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub fn lay_rows((rows, terms): (usize, usize), values: &[f32], offset: u8, into: Laid) {
    let (blocks, width) = (terms.div_ceil(DEPTH), into.width);
    assert!(values.len() == rows * terms && 0 < rows && rows <= width);
    let lines = |len: usize, lines: usize| (lines - 1) * width + rows <= len;
    assert!(lines(into.groups.len(), blocks * DEPTH / 4) && lines(into.scales.len(), blocks));
    assert!(into.sums.is_empty() || lines(into.sums.len(), blocks));
    let offset = _mm512_set1_epi8(offset as i8);
    for first in (0..rows).step_by(LANES) {
        let count = LANES.min(rows - first);
        for block in 0..blocks {
            let block_terms = DEPTH.min(terms - block * DEPTH);
            // Safety: rows `first..first + count` have `block_terms` values from there on.
            let (x, largest) = unsafe {
                let from = values.as_ptr().add(first * terms + block * DEPTH);
                read(from, (count, block_terms), terms)
            };
            let (scale, inverse) = scales_of(largest);
            let (x, sums) = round(&x, inverse, count);
            let (at, lanes) = (block * width + first, lanes(count));
            // Safety: the asserts; `lanes` ends with the rows.
            unsafe {
                _mm512_mask_storeu_ps(into.scales.as_mut_ptr().add(at), lanes, scale);
                if !into.sums.is_empty() {
                    _mm512_mask_storeu_epi32(into.sums.as_mut_ptr().add(at), lanes, sums);
                }
                for (group, x) in x.iter().enumerate() {
                    let at = (block * DEPTH / 4 + group) * width + first;
                    let to = into.groups.as_mut_ptr().add(at).cast();
                    _mm512_mask_storeu_epi32(to, lanes, _mm512_xor_si512(*x, offset));
                }
            }
        }
    }
}

type Rows = [[__m512; 4]; LANES];

/// At most 64 terms of `count` rows, `stride` apart, the rest zeros; and in each lane the largest magnitude of one row.
///
/// Safety: the rows lie behind `from`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn read(from: *const f32, (count, terms): (usize, usize), stride: usize) -> (Rows, __m512) {
    let mut x = [[_mm512_setzero_ps(); 4]; LANES];
    let mut most = [_mm512_setzero_si512(); LANES];
    for (row, (x, most)) in x.iter_mut().zip(&mut most).enumerate().take(count) {
        for (part, x) in x.iter_mut().enumerate() {
            let lanes = lanes(terms.saturating_sub(part * LANES));
            // Safety: only values of the row are read.
            *x = unsafe {
                _mm512_maskz_loadu_ps(lanes, from.wrapping_add(row * stride + part * LANES))
            };
        }
        *most = _mm512_castps_si512(largest(largest(x[0], x[1]), largest(x[2], x[3])));
    }
    let most = turned(most).map(|most| _mm512_castsi512_ps(most));
    (
        x,
        most.into_iter()
            .fold(_mm512_setzero_ps(), |a, b| largest(a, b)),
    )
}

/// The larger magnitude of each lane; the bits of a NaN are larger than any.
#[inline]
#[target_feature(enable = "avx512f")]
fn largest(a: __m512, b: __m512) -> __m512 {
    let magnitude = |x| _mm512_castps_si512(_mm512_abs_ps(x));
    _mm512_castsi512_ps(_mm512_max_epu32(magnitude(a), magnitude(b)))
}

/// As [`super::scale_of`].
#[inline]
#[target_feature(enable = "avx512f")]
fn scales_of(largest: __m512) -> (__m512, __m512) {
    let most = _mm512_set1_ps(127.0);
    let normal = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(largest, _mm512_set1_ps(1e-35));
    (
        _mm512_div_ps(largest, most),
        _mm512_maskz_div_ps(normal, most, largest),
    )
}

/// Rows to whole numbers by the `inverse` of each lane; gives groups of four terms, a row in each lane, and their sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn round(x: &Rows, inverse: __m512, count: usize) -> ([__m512i; LANES], __m512i) {
    let mut inverses = [0.0; LANES];
    // Safety: sixteen places.
    unsafe { _mm512_storeu_ps(inverses.as_mut_ptr(), inverse) };
    let mut bytes = [_mm512_setzero_si512(); LANES];
    for ((bytes, x), inverse) in bytes.iter_mut().zip(x).zip(inverses).take(count) {
        *bytes = four(x.map(|x| _mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(inverse)))));
    }
    let bytes = turned(bytes);
    let mut sums = _mm512_setzero_si512();
    for bytes in &bytes {
        sums = _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(1), *bytes);
    }
    // In every quarter `four` has a group of each of its operands: group 4·quarter + operand belongs to 4·operand + quarter.
    (
        std::array::from_fn(|group| bytes[group % 4 * 4 + group / 4]),
        sums,
    )
}

/// Small whole numbers to bytes; every quarter of the result has the quarters of the four, one after another.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn four([a, b, c, d]: [__m512i; 4]) -> __m512i {
    _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d))
}

/// As [`super::lay_columns`], for a width of whole registers.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub fn lay_columns(columns: &Columns, groups: &mut [u32], scales: &mut [f32], sums: &mut [i32]) {
    let width = scales.len();
    let steps = groups.len() / width;
    assert!(width.is_multiple_of(LANES) && sums.len() == width && columns.terms <= 4 * steps);
    // From four bytes of each of four rows to a group of four rows for each column.
    let by_column = _mm512_broadcast_i32x4(_mm_setr_epi8(
        0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
    ));
    for first in (0..width).step_by(LANES) {
        let lanes = lanes(columns.count.saturating_sub(first));
        let row = |term: usize| match term < columns.terms {
            // Safety: only values of the row are read.
            true => unsafe {
                _mm512_maskz_loadu_ps(lanes, columns.row(term).as_ptr().wrapping_add(first))
            },
            false => _mm512_setzero_ps(),
        };
        let most =
            (0..columns.terms).fold(_mm512_setzero_ps(), |most, term| largest(most, row(term)));
        let (scale, inverse) = scales_of(most);
        let whole = |term| _mm512_cvtps_epi32(_mm512_mul_ps(row(term), inverse));
        let mut sum = _mm512_setzero_si512();
        for (step, groups) in groups.chunks_exact_mut(width).enumerate() {
            let term = 4 * step;
            let bytes = four([
                whole(term),
                whole(term + 1),
                whole(term + 2),
                whole(term + 3),
            ]);
            let bytes = _mm512_shuffle_epi8(bytes, by_column);
            sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), bytes);
            // Safety: sixteen places from `first` on.
            unsafe { _mm512_storeu_epi32(groups.as_mut_ptr().add(first).cast(), bytes) };
        }
        // Safety: as for the groups.
        unsafe {
            _mm512_storeu_ps(scales.as_mut_ptr().add(first), scale);
            _mm512_storeu_epi32(sums.as_mut_ptr().add(first), sum);
        }
    }
}
