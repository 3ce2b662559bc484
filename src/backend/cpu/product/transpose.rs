//! Sixteen rows of 32-bit values to columns, sixteen at a time.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// `rows` (at most 16) rows of `columns`, `stride` apart, to `columns` rows of `rows`, `width` apart.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
pub fn avx512(
    (rows, columns): (usize, usize),
    from: &[u32],
    stride: usize,
    into: &mut [u32],
    width: usize,
) {
    assert!(0 < rows && rows <= 16 && columns <= stride && rows <= width);
    assert!((rows - 1) * stride + columns <= from.len());
    assert!(columns == 0 || (columns - 1) * width + rows <= into.len());
    let lanes = 0xffff >> (16 - rows);
    for first in (0..columns).step_by(16) {
        let count = 16.min(columns - first);
        let readable = 0xffff >> (16 - count);
        let mut x = [_mm512_setzero_si512(); 16];
        for (row, x) in x.iter_mut().enumerate().take(rows) {
            // Safety: `count` values from `first` on lie in row `row`.
            *x = unsafe {
                _mm512_maskz_loadu_epi32(readable, from.as_ptr().add(row * stride + first).cast())
            };
        }
        let y = turned(x);
        for (column, y) in y.iter().enumerate().take(count) {
            // Safety: `rows` values lie in column `first + column`.
            unsafe {
                let to = into.as_mut_ptr().add((first + column) * width);
                _mm512_mask_storeu_epi32(to.cast(), lanes, *y);
            }
        }
    }
}

/// Pairs, fours, eights and sixteens change places, as in the fast Fourier transform.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
pub fn turned(x: [__m512i; 16]) -> [__m512i; 16] {
    let mut pairs = x;
    for i in 0..8 {
        pairs[2 * i] = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
    }
    // fours[4·i + j]: column j of each quarter, of rows 4·i to 4·i + 3.
    let mut fours = pairs;
    for i in 0..4 {
        for j in 0..2 {
            let (a, b) = (pairs[4 * i + j], pairs[4 * i + 2 + j]);
            fours[4 * i + 2 * j] = _mm512_unpacklo_epi64(a, b);
            fours[4 * i + 2 * j + 1] = _mm512_unpackhi_epi64(a, b);
        }
    }
    let mut y = fours;
    for j in 0..4 {
        let (a, b, c, d) = (fours[j], fours[4 + j], fours[8 + j], fours[12 + j]);
        let (ab_even, ab_odd) = (
            _mm512_shuffle_i32x4(a, b, 0x88),
            _mm512_shuffle_i32x4(a, b, 0xdd),
        );
        let (cd_even, cd_odd) = (
            _mm512_shuffle_i32x4(c, d, 0x88),
            _mm512_shuffle_i32x4(c, d, 0xdd),
        );
        y[j] = _mm512_shuffle_i32x4(ab_even, cd_even, 0x88);
        y[4 + j] = _mm512_shuffle_i32x4(ab_odd, cd_odd, 0x88);
        y[8 + j] = _mm512_shuffle_i32x4(ab_even, cd_even, 0xdd);
        y[12 + j] = _mm512_shuffle_i32x4(ab_odd, cd_odd, 0xdd);
    }
    y
}
