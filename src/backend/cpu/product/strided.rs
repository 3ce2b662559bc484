//! Products of strided views on one thread: the heads of an attention, which lie inside wider rows. Factors are f32 or bf16,
//! sums f32.

use std::ops::Range;

use super::kernel::{Kernel, MOST_TILE, Precision, Tile};
use super::pack::{Columns, copy_columns, join_steps, pair_columns, pair_row, side_by_side};
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

    /// Lays `rows` rows of `terms` values side by side for the tiles of `kernel`, `width` apart: [groups, width].
    fn lay(
        &self,
        kernel: &Kernel,
        (rows, terms): (usize, usize),
        into: &mut [u32],
        width: usize,
        lines: &mut Vec<u32>,
    ) {
        let bf16 = kernel.precision == Precision::Bf16;
        if self.column_stride != 1 {
            let columns = Columns {
                values: self.values,
                stride: self.column_stride,
                terms,
                count: rows,
            };
            assert_eq!(
                self.row_stride, 1,
                "a view has neither rows nor columns together"
            );
            match bf16 {
                true => pair_columns(&columns, width, into),
                false => copy_columns(&columns, width, into),
            }
        } else if bf16 {
            let groups = groups(kernel, terms);
            lines.clear();
            lines.resize(rows * groups, 0);
            for (line, values) in lines
                .chunks_mut(groups)
                .zip(self.values.chunks(self.row_stride))
            {
                pair_row(&values[..terms], line);
            }
            side_by_side((rows, groups), lines, groups, into, width);
        } else {
            let values = bytemuck::cast_slice(self.values);
            side_by_side((rows, terms), values, self.row_stride, into, width);
        }
        join_steps(kernel, into, width);
    }
}

/// 32-bit groups that `terms` terms of a sum fill, with zeros after them.
fn groups(kernel: &Kernel, terms: usize) -> usize {
    terms
        .div_ceil(kernel.precision.group())
        .next_multiple_of(kernel.together)
}

/// A right operand b[terms, columns] laid out for the tiles of a kernel, for many products.
pub struct Strips {
    kernel: &'static Kernel,
    terms: usize,
    columns: usize,
    /// [strips, groups, columns of the kernel]
    groups: Buffer,
}

impl Strips {
    /// `kernel`: of f32 or bf16. `b`: [terms, columns], rows or columns of which lie together.
    pub fn of(kernel: &'static Kernel, (terms, columns): (usize, usize), b: View) -> Strips {
        assert!(
            b.holds(terms, columns) && kernel.precision != Precision::Int8,
            "strips: {terms}x{columns} for {}",
            kernel.name
        );
        let width = kernel.columns;
        let strip = groups(kernel, terms) * width;
        let mut groups = Buffer::stale(columns.div_ceil(width) * strip);
        let mut lines = Vec::new();
        for (index, into) in groups.words_mut().chunks_mut(strip.max(1)).enumerate() {
            let first = index * width;
            let size = (width.min(columns - first), terms);
            let columns = b.transposed().below(first);
            columns.lay(kernel, size, into, width, &mut lines);
        }
        Strips {
            kernel,
            terms,
            columns,
            groups,
        }
    }

    pub fn all(&self) -> Part<'_> {
        self.part(0..self.terms, 0..self.columns)
    }

    /// Some terms; the first a multiple of the kernel's columns.
    pub fn terms(&self, terms: Range<usize>) -> Part<'_> {
        self.part(terms, 0..self.columns)
    }

    /// Some columns; the first a multiple of the kernel's.
    pub fn columns(&self, columns: Range<usize>) -> Part<'_> {
        self.part(0..self.terms, columns)
    }

    fn part(&self, terms: Range<usize>, columns: Range<usize>) -> Part<'_> {
        let width = self.kernel.columns;
        let inside = terms.end <= self.terms && columns.end <= self.columns;
        let aligned = terms.start.is_multiple_of(width) && columns.start.is_multiple_of(width);
        // Terms that follow in the same group would count.
        let group = self.kernel.precision.group() * self.kernel.together;
        let whole = terms.end == self.terms || terms.end.is_multiple_of(group);
        assert!(
            inside && aligned && whole,
            "strips: {terms:?} by {columns:?}"
        );
        Part {
            strips: self,
            terms,
            columns,
        }
    }
}

/// Some terms and columns of a right operand.
pub struct Part<'a> {
    strips: &'a Strips,
    terms: Range<usize>,
    columns: Range<usize>,
}

/// What happens to the old values of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Old {
    /// They are not read.
    Replaced,
    AddedTo,
}

/// Memory for laying out left operands, used again from product to product.
#[derive(Default)]
pub struct Room {
    left: Vec<u32>,
    lines: Vec<u32>,
}

/// c[m, columns] = a[m, terms]·b, or that added to c; rows of c are `c_stride` apart.
pub fn matmul(
    m: usize,
    a: View,
    b: Part,
    old: Old,
    c: &mut [f32],
    c_stride: usize,
    room: &mut Room,
) {
    let kernel = b.strips.kernel;
    let (n, k, width) = (b.columns.len(), b.terms.len(), kernel.columns);
    assert!(
        a.holds(m, k),
        "matmul: the left operand is too short for {m}x{k}"
    );
    assert!(
        m == 0 || n == 0 || (n <= c_stride && (m - 1) * c_stride + n <= c.len()),
        "matmul: the result is too short for {m}x{n}"
    );
    let steps = groups(kernel, k);
    let strip_groups = groups(kernel, b.strips.terms) * width;
    let b_start = b.terms.start / kernel.precision.group() * width;
    room.left.resize(kernel.rows * steps, 0);
    for top in (0..m).step_by(kernel.rows) {
        let rows = kernel.rows.min(m - top);
        let left = &mut room.left[..rows * steps];
        a.below(top)
            .lay(kernel, (rows, k), left, rows, &mut room.lines);
        for first in (0..n).step_by(width) {
            let columns = width.min(n - first);
            let strip = (b.columns.start + first) / width;
            let c = &mut c[top * c_stride + first..];
            let mut tile = Tile {
                rows,
                blocks: 1,
                steps,
                a: left.as_ptr(),
                a_scales: std::ptr::null(),
                b: b.strips.groups.words()[strip * strip_groups + b_start..].as_ptr(),
                b_block: 0,
                b_scales: std::ptr::null(),
                b_sums: std::ptr::null(),
                b_scales_block: 0,
                c: c.as_mut_ptr(),
                c_stride,
                keep: old == Old::AddedTo,
            };
            if columns == width {
                // Safety: the operands were laid out for this kernel; the asserts leave a whole tile of room in c.
                unsafe { (kernel.tile)(&tile) };
                continue;
            }
            let mut edge = [0.0; MOST_TILE];
            (tile.c, tile.c_stride, tile.keep) = (edge.as_mut_ptr(), width, false);
            // Safety: as above; `edge` has room for the largest tile.
            unsafe { (kernel.tile)(&tile) };
            for (row, edge) in edge.chunks(width).enumerate().take(rows) {
                for (c, sum) in c[row * c_stride..].iter_mut().zip(&edge[..columns]) {
                    *c = if old == Old::AddedTo { *c + sum } else { *sum };
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

    /// Whole numbers this small are exact in bf16 too.
    fn olds_and_kernels() -> impl Iterator<Item = (Old, &'static Kernel)> {
        let kernels = Kernel::all().filter(|kernel| kernel.precision != Precision::Int8);
        kernels.flat_map(|kernel| [Old::Replaced, Old::AddedTo].map(|old| (old, kernel)))
    }

    #[test]
    fn parts_of_a_laid_out_operand_are_those_of_the_whole() {
        let (m, k, n) = (9, 101, 103);
        let (a, b) = (whole(m * k, 7), whole(k * n, 3));
        for (old, kernel) in olds_and_kernels() {
            let strips = Strips::of(kernel, (k, n), View::rows(&b, n));
            let (first, room) = (2 * kernel.columns, &mut Room::default());
            let product = |terms: Range<usize>, column: usize, row: usize| {
                terms
                    .map(|l| a[row * k + l] * b[l * n + column])
                    .sum::<f32>()
            };
            let mut columns = vec![0.0; m * (n - first)];
            let part = strips.columns(first..n);
            matmul(
                m,
                View::rows(&a, k),
                part,
                old,
                &mut columns,
                n - first,
                room,
            );
            for (at, c) in columns.iter().enumerate() {
                let (row, column) = (at / (n - first), at % (n - first));
                assert_eq!(*c, product(0..k, first + column, row), "{}", kernel.name);
            }
            for end in [k, first + 12] {
                let mut terms = vec![0.0; m * n];
                let left = View::rows(&a[first..], k);
                matmul(m, left, strips.terms(first..end), old, &mut terms, n, room);
                for (at, c) in terms.iter().enumerate() {
                    assert_eq!(*c, product(first..end, at % n, at / n), "{}", kernel.name);
                }
            }
        }
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
                for (old, kernel) in olds_and_kernels() {
                    let stride = n + 3;
                    let mut c = vec![1.0; m * stride];
                    let b_strips = Strips::of(kernel, (k, n), b);
                    let room = &mut Room::default();
                    matmul(m, a, b_strips.all(), old, &mut c, stride, room);
                    for (row, c) in c.chunks(stride).enumerate() {
                        for (column, c) in c[..n].iter().enumerate() {
                            let terms =
                                (0..k).map(|l| element(&a, row, l) * element(&b, l, column));
                            let before = if old == Old::AddedTo { 1.0 } else { 0.0 };
                            assert_eq!(
                                *c,
                                before + terms.sum::<f32>(),
                                "{m}x{n}x{k} {}",
                                kernel.name
                            );
                        }
                        assert_eq!(c[n..], [1.0; 3], "padding");
                    }
                }
            }
        }
    }
}
