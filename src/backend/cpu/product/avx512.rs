//! Tiles of 14 by 32 in AVX-512: 28 sums in registers, two vectors of the right operand, one value of the left to all lanes.

use std::arch::x86_64::*;

use super::kernel::{Kernel, Precision, Tile, by_rows};
use crate::backend::cpu::Feature;

const ROWS: usize = 14;
const COLUMNS: usize = 32;

pub(super) const KERNELS: &[Kernel] = &[
    Kernel {
        name: "avx512 f32",
        precision: Precision::F32,
        rows: ROWS,
        columns: COLUMNS,
        together: 1,
        unsigned_left: false,
        needs: &[Feature::Avx512],
        tile: f32_tile,
    },
    Kernel {
        name: "avx512_bf16",
        precision: Precision::Bf16,
        rows: ROWS,
        columns: COLUMNS,
        together: 1,
        unsigned_left: false,
        needs: &[Feature::Avx512, Feature::Avx512Bf16],
        tile: bf16_tile,
    },
    Kernel {
        name: "avx512_vnni",
        precision: Precision::Int8,
        rows: ROWS,
        columns: COLUMNS,
        together: 1,
        unsigned_left: true,
        needs: &[Feature::Avx512, Feature::Avx512Vnni],
        tile: int8_tile,
    },
];

/// The two tiles that sum in f32 from the first term to the last.
macro_rules! summing_tile {
    ($tile:ident, $rows:ident, $features:literal, $dot:expr) => {
        /// Safety: the pointers of `tile` reach as far as its lengths say; the processor has the features.
        unsafe fn $tile(tile: &Tile) {
            unsafe { by_rows!(tile, $rows: 1 2 3 4 5 6 7 8 9 10 11 12 13 14) }
        }

        #[target_feature(enable = $features)]
        unsafe fn $rows<const ROWS: usize>(tile: &Tile) {
            let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
            // Safety: all reads and writes lie within the lengths documented on `Tile`.
            unsafe {
                let mut a = tile.a;
                for block in 0..tile.blocks {
                    let mut b = tile.b.add(block * tile.b_block);
                    for _ in 0..tile.steps {
                        let columns = [_mm512_loadu_si512(b.cast()), _mm512_loadu_si512(b.add(16).cast())];
                        for (row, sums) in sums.iter_mut().enumerate() {
                            let a = _mm512_set1_epi32(*a.add(row) as i32);
                            sums[0] = $dot(sums[0], a, columns[0]);
                            sums[1] = $dot(sums[1], a, columns[1]);
                        }
                        a = a.add(ROWS);
                        b = b.add(COLUMNS);
                    }
                }
                for (row, sums) in sums.iter().enumerate() {
                    for (half, sum) in sums.iter().enumerate() {
                        let c = tile.c.add(row * tile.c_stride + 16 * half);
                        let old = if tile.keep { _mm512_loadu_ps(c) } else { _mm512_setzero_ps() };
                        _mm512_storeu_ps(c, _mm512_add_ps(old, *sum));
                    }
                }
            }
        }
    };
}

summing_tile!(f32_tile, f32_rows, "avx512f", |sum, a, b| _mm512_fmadd_ps(
    _mm512_castsi512_ps(a),
    _mm512_castsi512_ps(b),
    sum
));
summing_tile!(bf16_tile, bf16_rows, "avx512f,avx512bf16", |sum, a, b| {
    // The same 512 bits under another name.
    let bf16 = |bits| std::mem::transmute::<__m512i, __m512bh>(bits);
    _mm512_dpbf16_ps(sum, bf16(a), bf16(b))
});

/// Safety: as above.
unsafe fn int8_tile(tile: &Tile) {
    unsafe { by_rows!(tile, int8_rows: 1 2 3 4 5 6 7 8 9 10 11 12 13 14) }
}

/// Sums of whole numbers within a block; after it they join c in f32.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn int8_rows<const ROWS: usize>(tile: &Tile) {
    // Safety: all reads and writes lie within the lengths documented on `Tile`.
    unsafe {
        let mut a = tile.a;
        for block in 0..tile.blocks {
            let at = block * tile.b_scales_block;
            let start = tile.b_sums.add(at);
            let start = [
                _mm512_loadu_si512(start.cast()),
                _mm512_loadu_si512(start.add(16).cast()),
            ];
            let mut sums = [start; ROWS];
            let mut b = tile.b.add(block * tile.b_block);
            for _ in 0..tile.steps {
                let columns = [
                    _mm512_loadu_si512(b.cast()),
                    _mm512_loadu_si512(b.add(16).cast()),
                ];
                for (row, sums) in sums.iter_mut().enumerate() {
                    let a = _mm512_set1_epi32(*a.add(row) as i32);
                    sums[0] = _mm512_dpbusd_epi32(sums[0], a, columns[0]);
                    sums[1] = _mm512_dpbusd_epi32(sums[1], a, columns[1]);
                }
                a = a.add(ROWS);
                b = b.add(COLUMNS);
            }
            let scales = tile.b_scales.add(at);
            let scales = [_mm512_loadu_ps(scales), _mm512_loadu_ps(scales.add(16))];
            for (row, sums) in sums.iter().enumerate() {
                let scale = _mm512_set1_ps(*tile.a_scales.add(block * ROWS + row));
                for (half, sum) in sums.iter().enumerate() {
                    let c = tile.c.add(row * tile.c_stride + 16 * half);
                    let keep = tile.keep || block > 0;
                    let old = if keep {
                        _mm512_loadu_ps(c)
                    } else {
                        _mm512_setzero_ps()
                    };
                    let factor = _mm512_mul_ps(scale, scales[half]);
                    _mm512_storeu_ps(c, _mm512_fmadd_ps(_mm512_cvtepi32_ps(*sum), factor, old));
                }
            }
        }
    }
}
