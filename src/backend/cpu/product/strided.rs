//! f32 products of strided views on one thread: the heads of an attention, which lie inside wider rows.

use super::kernel::{Kernel, Tile};
use super::pack::side_by_side;
use crate::backend::Buffer;

/// A matrix inside a slice: element (row, column) is `values[row * row_stride + column * column_stride]`.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub values: &'a [f32],
    pub row_stride: usize,
    pub column_stride: usize,
}

impl<'a> View<'a> {
    /// Rows of `columns` values one after another.
    pub fn rows(values: &'a [f32], columns: usize) -> View<'a> {
        View {
            values,
            row_stride: columns,
            column_stride: 1,
        }
    }

    pub fn transposed(self) -> View<'a> {
        View {
            values: self.values,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    /// The rows from `first` on.
    pub fn below(self, first: usize) -> View<'a> {
        let values = &self.values[first * self.row_stride..];
        View { values, ..self }
    }

    fn holds(&self, rows: usize, columns: usize) -> bool {
        rows == 0
            || columns == 0
            || (rows - 1) * self.row_stride + (columns - 1) * self.column_stride < self.values.len()
    }

    /// Lays `rows` rows of `columns` values side by side, `width` apart: [columns, width].
    fn lay(&self, (rows, columns): (usize, usize), into: &mut [f32], width: usize) {
        if self.column_stride == 1 {
            let groups: &mut [u32] = bytemuck::cast_slice_mut(into);
            let values = bytemuck::cast_slice(self.values);
            return side_by_side((rows, columns), values, self.row_stride, groups, width);
        }
        for (column, into) in into.chunks_mut(width).take(columns).enumerate() {
            let values = &self.values[column * self.column_stride..];
            if self.row_stride == 1 {
                into[..rows].copy_from_slice(&values[..rows]);
                continue;
            }
            for (row, into) in into[..rows].iter_mut().enumerate() {
                *into = values[row * self.row_stride];
            }
        }
    }
}

/// What happens to the old values of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Old {
    /// They are not read.
    Replaced,
    AddedTo,
}

/// c[m, n] = `scale`·a[m, k]·b[k, n], or that added to c; c has rows of length `c_stride`.
pub fn matmul(
    (m, n, k): (usize, usize, usize),
    scale: f32,
    a: View,
    b: View,
    old: Old,
    c: &mut [f32],
    c_stride: usize,
) {
    assert!(
        a.holds(m, k) && b.holds(k, n),
        "matmul: an operand is too short for {m}x{k}x{n}"
    );
    assert!(
        m == 0 || n == 0 || (n <= c_stride && (m - 1) * c_stride + n <= c.len()),
        "matmul: the result is too short for {m}x{n}"
    );
    let kernel = Kernel::f32();
    let keep = old == Old::AddedTo;
    let mut left = Buffer::stale(m * k);
    for (strip, into) in left.chunks_mut((kernel.rows * k).max(1)).enumerate() {
        let first = strip * kernel.rows;
        let rows = kernel.rows.min(m - first);
        a.below(first).lay((rows, k), into, rows);
    }
    if scale != 1.0 {
        left.iter_mut().for_each(|value| *value *= scale);
    }
    let mut right = Buffer::stale(k * kernel.columns);
    for first in (0..n).step_by(kernel.columns) {
        let columns = kernel.columns.min(n - first);
        b.transposed()
            .below(first)
            .lay((columns, k), &mut right, kernel.columns);
        for top in (0..m).step_by(kernel.rows) {
            let rows = kernel.rows.min(m - top);
            let c = &mut c[top * c_stride + first..];
            let mut edge = [0.0; 16 * 32];
            let whole = columns == kernel.columns;
            let (target, stride) = match whole {
                true => (c.as_mut_ptr(), c_stride),
                false => (edge.as_mut_ptr(), kernel.columns),
            };
            let tile = Tile {
                rows,
                blocks: 1,
                steps: k,
                a: left.words()[top * k..].as_ptr(),
                a_scales: std::ptr::null(),
                b: right.words().as_ptr(),
                b_block: 0,
                b_scales: std::ptr::null(),
                b_sums: std::ptr::null(),
                b_scales_block: 0,
                c: target,
                c_stride: stride,
                keep: keep && whole,
            };
            // Safety: the operands were laid out for this kernel above; the asserts leave a whole tile of room in c, and
            // `edge` has room for the largest.
            unsafe { (kernel.tile)(&tile) };
            if !whole {
                for (row, edge) in edge.chunks(kernel.columns).enumerate().take(rows) {
                    for (c, sum) in c[row * c_stride..].iter_mut().zip(&edge[..columns]) {
                        *c = if keep { *c + sum } else { *sum };
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small whole numbers, so that every order of the sums gives the same.
    fn whole(len: usize, step: usize) -> Vec<f32> {
        (0..len).map(|i| (i * step % 11) as f32 - 5.0).collect()
    }

    #[test]
    fn views_of_every_kind_follow_the_formula_and_leave_the_padding_alone() {
        for (m, n, k) in [
            (1, 1, 1),
            (3, 5, 7),
            (15, 33, 64),
            (64, 70, 33),
            (29, 64, 2),
        ] {
            let (wide_a, wide_b) = (k + 3, n + 2);
            let (a, b) = (whole(m * wide_a, 7), whole(k * wide_b, 3));
            let a_rows = View::rows(&a, wide_a);
            let b_rows = View::rows(&b, wide_b);
            let (at, bt) = (whole(k * (m + 1), 5), whole(n * (k + 4), 2));
            let a_columns = View::rows(&at, m + 1).transposed();
            let b_columns = View::rows(&bt, k + 4).transposed();
            let element = |view: &View, row: usize, column: usize| {
                view.values[row * view.row_stride + column * view.column_stride]
            };
            for (a, b) in [
                (a_rows, b_rows),
                (a_columns, b_columns),
                (a_rows, b_columns),
            ] {
                for old in [Old::Replaced, Old::AddedTo] {
                    let stride = n + 3;
                    let mut c = vec![1.0; m * stride];
                    matmul((m, n, k), 2.0, a, b, old, &mut c, stride);
                    for (row, c) in c.chunks(stride).enumerate() {
                        for (column, c) in c[..n].iter().enumerate() {
                            let terms =
                                (0..k).map(|l| element(&a, row, l) * element(&b, l, column));
                            let before = if old == Old::AddedTo { 1.0 } else { 0.0 };
                            assert_eq!(*c, before + 2.0 * terms.sum::<f32>(), "{m}x{n}x{k}");
                        }
                        assert_eq!(c[n..], [1.0; 3], "padding");
                    }
                }
            }
        }
    }
}
