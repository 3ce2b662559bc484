//! Products with a matrix that is unpacked on the way: y = x·Wᵀ and y = x·W, in f32, bf16 or int8, summed in f32.
//!
//! Both operands are laid out for the tiles of a [`Kernel`]: x once, W a piece at a time that fits the cache, on all
//! threads; then all threads share the tiles of that piece. Goto and van de Geijn 2008, "Anatomy of high-performance
//! matrix multiplication".

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod int8;
mod kernel;
mod left;
pub mod narrow;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pack;
mod plain;
mod right;
pub mod strided;
#[cfg(test)]
mod tests;
mod transpose;

use rayon::prelude::*;

use crate::error::Result;

use kernel::MOST_TILE;
pub use kernel::{DEPTH, Kernel, Precision};
use left::Left;
pub use right::{Dense, Matrix, RowSpan};
use right::{Piece, Right};

/// Which way a matrix [rows, columns] is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// y[m, rows] = x[m, columns]·Wᵀ
    Transposed,
    /// y[m, columns] = x[m, rows]·W
    AsIs,
}

/// Bytes of a piece of the matrix laid out for the tiles that all threads share.
const PIECE: usize = 4 << 20;
/// Bytes of a piece that one thread lays out and uses up: a part of its second-level cache.
const PANEL: usize = 256 << 10;

/// The most that a product of `rows` rows of x keeps beside its operands: x and a piece of the matrix laid out, and for every
/// thread the rows of the matrix it unpacks. `widest`: the longest row of either; `largest`: values of the matrix.
pub fn bytes(rows: usize, widest: usize, largest: usize, threads: usize) -> usize {
    let value = size_of::<f32>();
    let piece = PIECE.max(threads * PANEL).min(largest * value);
    rows * widest * value + piece + threads * 2 * DEPTH * widest * value
}

/// y = x·W or x·Wᵀ; with `keep` y + that. `x` has `m` rows, one after another, y too. One row by Wᵀ is computed in f32
/// whatever the kernel: laying W out would take longer.
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
    if m == 0 || outputs == 0 || terms == 0 {
        return Ok(());
    }
    if m == 1 && side == Side::Transposed {
        return narrow::one_row(x, matrix, keep, y);
    }
    let left = Left::new(kernel, (m, terms), x);
    let target = Target {
        y: y.as_mut_ptr(),
        columns: outputs,
        keep,
    };
    match side {
        Side::Transposed => by_panels(kernel, &left, matrix, terms, &target),
        Side::AsIs => by_pieces(kernel, &left, matrix, terms, &target),
    }
}

/// Every thread lays out some rows of the matrix and multiplies with them.
fn by_panels(
    kernel: &Kernel,
    left: &Left,
    matrix: &dyn Matrix,
    terms: usize,
    target: &Target,
) -> Result<()> {
    let strips = target.columns.div_ceil(kernel.columns);
    let strip_bytes = kernel.columns * terms * 4 / kernel.precision.group();
    let tasks = TASKS * rayon::current_num_threads();
    let per_panel = (PANEL / strip_bytes).min(strips.div_ceil(tasks)).max(1);
    let panels = strips.div_ceil(per_panel);
    // With few columns the rows are shared out as well.
    let parts = tasks.div_ceil(panels).min(left.strips());
    let per_part = left.strips().div_ceil(parts);
    (0..panels * parts).into_par_iter().try_for_each(|task| {
        let (panel, part) = (task / parts, task % parts);
        let first = panel * per_panel * kernel.columns;
        let piece = Piece {
            terms: 0..terms,
            outputs: first..(first + per_panel * kernel.columns).min(target.columns),
        };
        let right = Right::panel(kernel, left.cut, matrix, &piece)?;
        for rows in part * per_part..((part + 1) * per_part).min(left.strips()) {
            for strip in 0..right.strips() {
                target.tile(kernel, left, &right, (rows, strip));
            }
        }
        Ok(())
    })
}

/// All threads lay out some rows of the matrix, then share the columns.
fn by_pieces(
    kernel: &Kernel,
    left: &Left,
    matrix: &dyn Matrix,
    terms: usize,
    target: &Target,
) -> Result<()> {
    let row_bytes = target.columns * 4 / kernel.precision.group();
    let most = (PIECE / row_bytes.max(1)).next_multiple_of(DEPTH);
    for first in (0..terms).step_by(most) {
        let piece = Piece {
            terms: first..(first + most).min(terms),
            outputs: 0..target.columns,
        };
        let right = Right::piece(kernel, left.cut, matrix, &piece)?;
        let target = Target {
            keep: target.keep || first > 0,
            ..*target
        };
        let parts = (TASKS * rayon::current_num_threads()).div_ceil(right.strips());
        let parts = parts.min(left.strips());
        let per_part = left.strips().div_ceil(parts);
        (0..right.strips() * parts)
            .into_par_iter()
            .for_each(|task| {
                let (strip, part) = (task / parts, task % parts);
                for rows in part * per_part..((part + 1) * per_part).min(left.strips()) {
                    target.tile(kernel, left, &right, (rows, strip));
                }
            });
    }
    Ok(())
}

/// Tasks for each thread, so that none waits long for the others.
const TASKS: usize = 4;

/// A result whose tiles several threads write.
struct Target {
    y: *mut f32,
    columns: usize,
    keep: bool,
}

// Safety: the tasks that share it write different tiles.
unsafe impl Sync for Target {}

impl Target {
    /// Computes the tile of strip `rows` of the left and strip `strip` of the right operand.
    fn tile(&self, kernel: &Kernel, left: &Left, right: &Right, (rows, strip): (usize, usize)) {
        let first = right.outputs.start + strip * kernel.columns;
        let columns = kernel.columns.min(right.outputs.end - first);
        let mut tile = left.tile(rows, right.cut, right.first_block);
        right.fill(strip, &mut tile);
        // Safety: inside y, which outlives the tasks; these rows and columns are this task's alone.
        let target = unsafe { self.y.add(rows * kernel.rows * self.columns + first) };
        if columns == kernel.columns {
            (tile.c, tile.c_stride, tile.keep) = (target, self.columns, self.keep);
            // Safety: the operands were laid out for this kernel; c has whole tiles of room.
            unsafe { (kernel.tile)(&tile) };
            return;
        }
        let mut edge = [0.0; MOST_TILE];
        (tile.c, tile.c_stride, tile.keep) = (edge.as_mut_ptr(), kernel.columns, false);
        // Safety: as above; `edge` has room for the largest tile.
        unsafe { (kernel.tile)(&tile) };
        for (row, edge) in edge.chunks(kernel.columns).enumerate().take(tile.rows) {
            // Safety: as for `target`.
            let row =
                unsafe { std::slice::from_raw_parts_mut(target.add(row * self.columns), columns) };
            for (y, sum) in row.iter_mut().zip(edge) {
                *y = if self.keep { *y + sum } else { *sum };
            }
        }
    }
}
