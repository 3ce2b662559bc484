//! Products with a matrix that is unpacked on the way: y = x·Wᵀ and y = x·W, in f32, bf16 or int8, summed in f32.
//!
//! Both operands are laid out for the tiles of a [`Kernel`]: x once, W a piece at a time that fits the cache, on all
//! threads; then all threads share the tiles of that piece. Goto and van de Geijn 2008, "Anatomy of high-performance
//! matrix multiplication".

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod kernel;
mod left;
pub mod narrow;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pack;
mod plain;
mod right;
#[cfg(test)]
mod tests;
mod transpose;

use rayon::prelude::*;

use crate::error::Result;

pub use kernel::{DEPTH, Kernel, Precision};
use left::Left;
use right::Right;
pub use right::{Dense, Matrix, RowSpan};

/// Which way a matrix [rows, columns] is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// y[m, rows] = x[m, columns]·Wᵀ
    Transposed,
    /// y[m, columns] = x[m, rows]·W
    AsIs,
}

/// Bytes of a piece of the matrix laid out for the tiles: half of a common second-level cache.
const PIECE: usize = 1 << 20;

/// The most that a product keeps beside its operands: `rows` of x and a piece of the matrix laid out, and for every thread
/// the rows of the matrix it unpacks. `widest`: the longest row of either.
pub fn bytes(rows: usize, widest: usize, threads: usize) -> usize {
    let value = size_of::<f32>();
    rows * widest * value + 2 * PIECE + threads * 2 * DEPTH * widest * value
}

/// y = x·W or x·Wᵀ; with `keep` y + that. `x` has `m` rows, one after another, y too.
pub fn product(
    kernel: &Kernel,
    side: Side,
    m: usize,
    x: &[f32],
    matrix: &dyn Matrix,
    keep: bool,
    y: &mut [f32],
) -> Result<()> {
    let (rows, columns) = matrix.size();
    let (terms, outputs) = match side {
        Side::Transposed => (columns, rows),
        Side::AsIs => (rows, columns),
    };
    assert!(
        x.len() == m * terms && y.len() == m * outputs,
        "product: operands do not fit"
    );
    if terms == 0 && !keep {
        y.fill(0.0);
    }
    if m == 0 || outputs == 0 {
        return Ok(());
    }
    let left = Left::new(kernel, (m, terms), x);
    for piece in Right::pieces(kernel, side, (terms, outputs)) {
        let right = Right::new(kernel, left.cut, side, matrix, &piece)?;
        let keep = keep || piece.terms.start > 0;
        multiply(kernel, &left, &right, keep, y, outputs);
    }
    Ok(())
}

/// The tiles of one piece, shared out to the threads of the current pool.
fn multiply(kernel: &Kernel, left: &Left, right: &Right, keep: bool, y: &mut [f32], stride: usize) {
    let strips = right.strips();
    let threads = rayon::current_num_threads();
    // A few tasks for each thread; with few columns the rows are shared out as well.
    let parts = (4 * threads).div_ceil(strips).min(left.strips());
    let per_part = left.strips().div_ceil(parts);
    let y = Shared(y.as_mut_ptr());
    (0..strips * parts).into_par_iter().for_each(|task| {
        let (strip, part) = (task / parts, task % parts);
        let first = right.outputs.start + strip * kernel.columns;
        let columns = kernel.columns.min(right.outputs.end - first);
        let mut edge = [0.0; 16 * 32];
        for rows in part * per_part..((part + 1) * per_part).min(left.strips()) {
            let mut tile = left.tile(rows, right.cut, right.first_block);
            right.fill(strip, &mut tile);
            // Safety: rows and columns of y that only this task writes; y outlives the tasks.
            let target = unsafe { y.get().add(rows * kernel.rows * stride + first) };
            let whole = columns == kernel.columns;
            (tile.c, tile.c_stride, tile.keep) = match whole {
                true => (target, stride, keep),
                false => (edge.as_mut_ptr(), kernel.columns, false),
            };
            // Safety: the operands were laid out for this kernel; c has whole tiles of room.
            unsafe { (kernel.tile)(&tile) };
            if !whole {
                for (row, edge) in edge.chunks(kernel.columns).enumerate().take(tile.rows) {
                    // Safety: as for `target`.
                    let row = unsafe {
                        std::slice::from_raw_parts_mut(target.add(row * stride), columns)
                    };
                    for (y, sum) in row.iter_mut().zip(edge) {
                        *y = if keep { *y + sum } else { *sum };
                    }
                }
            }
        }
    });
}

/// A result whose parts several threads write.
struct Shared(*mut f32);
// Safety: the tasks that share it write different parts.
unsafe impl Sync for Shared {}

impl Shared {
    fn get(&self) -> *mut f32 {
        self.0
    }
}
