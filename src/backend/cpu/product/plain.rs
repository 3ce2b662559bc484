//! The tiles in plain Rust: the reference for every other kernel, and what a processor without vectors uses.

use super::kernel::{Kernel, Precision, Tile};

const ROWS: usize = 4;
const COLUMNS: usize = 8;

pub(super) const KERNELS: &[Kernel] = &[
    kernel("plain f32", Precision::F32, tile_f32),
    kernel("plain bf16", Precision::Bf16, tile_bf16),
    kernel("plain int8", Precision::Int8, tile_int8),
];

const fn kernel(name: &'static str, precision: Precision, tile: unsafe fn(&Tile)) -> Kernel {
    Kernel {
        name,
        precision,
        rows: ROWS,
        columns: COLUMNS,
        together: 1,
        unsigned_left: false,
        needs: &[],
        tile,
    }
}

/// Safety: as for every kernel, the pointers of `tile` reach as far as its lengths say.
unsafe fn tile_f32(tile: &Tile) {
    let dot = |a: u32, b: u32| f32::from_bits(a) * f32::from_bits(b);
    unsafe { sums(tile, dot) }
}

unsafe fn tile_bf16(tile: &Tile) {
    let low = |pair: u32| f32::from_bits(pair << 16);
    let high = |pair: u32| f32::from_bits(pair & 0xffff_0000);
    let dot = |a: u32, b: u32| low(a) * low(b) + high(a) * high(b);
    unsafe { sums(tile, dot) }
}

#[inline(always)]
unsafe fn sums(tile: &Tile, dot: impl Fn(u32, u32) -> f32) {
    let mut sums = [[0.0; COLUMNS]; ROWS];
    for block in 0..tile.blocks {
        for step in 0..tile.steps {
            // Safety: lengths as documented on `Tile`.
            let (a, b) = unsafe {
                (
                    std::slice::from_raw_parts(
                        tile.a.add((block * tile.steps + step) * tile.rows),
                        tile.rows,
                    ),
                    &*tile
                        .b
                        .add(block * tile.b_block + step * COLUMNS)
                        .cast::<[u32; COLUMNS]>(),
                )
            };
            for (sums, &a) in sums.iter_mut().zip(a) {
                for (sum, &b) in sums.iter_mut().zip(b) {
                    *sum += dot(a, b);
                }
            }
        }
    }
    for (row, sums) in sums.iter().enumerate().take(tile.rows) {
        for (column, sum) in sums.iter().enumerate() {
            unsafe { put(tile, row, column, tile.keep, *sum) };
        }
    }
}

unsafe fn tile_int8(tile: &Tile) {
    for block in 0..tile.blocks {
        for (row, column) in
            (0..tile.rows).flat_map(|row| (0..COLUMNS).map(move |column| (row, column)))
        {
            // Safety: lengths as documented on `Tile`.
            let (sum, scale) = unsafe {
                let at = block * tile.b_scales_block + column;
                let mut sum = *tile.b_sums.add(at);
                for step in 0..tile.steps {
                    let a = *tile.a.add((block * tile.steps + step) * tile.rows + row);
                    let b = *tile.b.add(block * tile.b_block + step * COLUMNS + column);
                    let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
                    sum += products
                        .map(|(a, b)| i32::from(a as i8) * i32::from(b as i8))
                        .sum::<i32>();
                }
                (
                    sum,
                    *tile.a_scales.add(block * tile.rows + row) * *tile.b_scales.add(at),
                )
            };
            unsafe {
                put(
                    tile,
                    row,
                    column,
                    tile.keep || block > 0,
                    sum as f32 * scale,
                )
            };
        }
    }
}

unsafe fn put(tile: &Tile, row: usize, column: usize, keep: bool, value: f32) {
    // Safety: `row` and `column` lie in the tile.
    let c = unsafe { &mut *tile.c.add(row * tile.c_stride + column) };
    *c = if keep { *c + value } else { value };
}
