//! Tiles of 6 by 16 in AVX2 with FMA: twelve sums in registers, two vectors of the right operand, one value of the left.

use std::arch::x86_64::*;

use super::kernel::{Kernel, Precision, Tile, by_rows};
use crate::backend::cpu::Feature;

const COLUMNS: usize = 16;

pub(super) const KERNELS: &[Kernel] = &[Kernel {
    name: "avx2 f32",
    precision: Precision::F32,
    rows: 6,
    columns: COLUMNS,
    together: 1,
    unsigned_left: false,
    needs: &[Feature::Avx2],
    tile: f32_tile,
}];

/// Safety: the pointers of `tile` reach as far as its lengths say; the processor has AVX2 and FMA.
unsafe fn f32_tile(tile: &Tile) {
    unsafe { by_rows!(tile, f32_rows: 1 2 3 4 5 6) }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn f32_rows<const ROWS: usize>(tile: &Tile) {
    let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
    // Safety: all reads and writes lie within the lengths documented on `Tile`.
    unsafe {
        let mut a = tile.a.cast::<f32>();
        for block in 0..tile.blocks {
            let mut b = tile.b.add(block * tile.b_block).cast::<f32>();
            for _ in 0..tile.steps {
                let columns = [_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(8))];
                for (row, sums) in sums.iter_mut().enumerate() {
                    let a = _mm256_broadcast_ss(&*a.add(row));
                    sums[0] = _mm256_fmadd_ps(a, columns[0], sums[0]);
                    sums[1] = _mm256_fmadd_ps(a, columns[1], sums[1]);
                }
                a = a.add(ROWS);
                b = b.add(COLUMNS);
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            for (half, sum) in sums.iter().enumerate() {
                let c = tile.c.add(row * tile.c_stride + 8 * half);
                let old = if tile.keep {
                    _mm256_loadu_ps(c)
                } else {
                    _mm256_setzero_ps()
                };
                _mm256_storeu_ps(c, _mm256_add_ps(old, *sum));
            }
        }
    }
}
