//! Products with a side of a few rows or columns, those of an adapter's factors: too thin to be worth laying out for tiles,
//! bound by reading the other operand once.

use rayon::prelude::*;

use crate::backend::Buffer;
use crate::backend::cpu::features::{multiply_add, vectorised};
use crate::backend::cpu::product::Matrix;
use crate::backend::cpu::reduce::across;
use crate::error::Result;

/// The longest side that counts as narrow.
pub const NARROW: usize = 32;

const LANES: usize = 16;
/// Rows of the longer operand that one task takes.
const ROWS: usize = 32;
/// Columns whose sums are kept in registers.
const COLUMNS: usize = 64;
/// Lines of a sum over the rows of both operands that one task takes, and those it takes together.
const SPAN: usize = 128;
const LINES: usize = 8;

/// y[m, n] = x[m, k]·wᵀ for `w` [n, k], `n` narrow.
pub fn few_outputs(k: usize, x: &[f32], w: &[f32], y: &mut [f32]) {
    let n = w.len() / k;
    y.par_chunks_mut(n * ROWS)
        .zip(x.par_chunks(k * ROWS))
        .for_each(|(y, x)| {
            for (y, x) in y.chunks_mut(n).zip(x.chunks(k)) {
                dots_of_row(x, w, y);
            }
        });
}

/// y[n] = w·x for `w` [n, k], or that added to y: reads every row of the matrix once, as a text is written token by token.
pub fn one_row(x: &[f32], matrix: &dyn Matrix, keep: bool, y: &mut [f32]) -> Result<()> {
    let k = x.len();
    y.par_chunks_mut(ROWS).enumerate().try_for_each_init(
        || Buffer::stale(ROWS * k),
        |rows, (task, y)| {
            let rows = &mut rows[..y.len() * k];
            matrix.unpack(task * ROWS, rows)?;
            let mut sums = [0.0; ROWS];
            let sums = &mut sums[..y.len()];
            dots_of_row(x, rows, sums);
            for (y, sum) in y.iter_mut().zip(sums) {
                *y = if keep { *y + *sum } else { *sum };
            }
            Ok(())
        },
    )
}

vectorised! {
    /// y[n] = w·x for `w` [n, k]: eight rows of w for each reading of x.
    fn dots_of_row(x: &[f32], w: &[f32], y: &mut [f32]) {
        let k = x.len();
        let (eights, rest) = y.as_chunks_mut::<8>();
        for (eight, y) in eights.iter_mut().enumerate() {
            *y = dots::<FUSED, 8>(x, &w[8 * eight * k..]);
        }
        let first = 8 * eights.len();
        for (row, y) in rest.iter_mut().enumerate() {
            [*y] = dots::<FUSED, 1>(x, &w[(first + row) * k..]);
        }
    }
}

#[inline(always)]
fn dots<const FUSED: bool, const N: usize>(x: &[f32], w: &[f32]) -> [f32; N] {
    let k = x.len();
    let mut sums = [[0.0; LANES]; N];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for (chunk, x) in chunks.iter().enumerate() {
        for (row, sums) in sums.iter_mut().enumerate() {
            let w = &w[row * k + chunk * LANES..][..LANES];
            for ((sum, x), w) in sums.iter_mut().zip(x).zip(w) {
                *sum = multiply_add::<FUSED>(*x, *w, *sum);
            }
        }
    }
    let done = k - rest.len();
    std::array::from_fn(|row| {
        let tail = rest.iter().zip(&w[row * k + done..]).map(|(x, w)| x * w);
        across(sums[row]) + tail.sum::<f32>()
    })
}

/// y[m, n] = x[m, k]·w, plus `c` [m, n] if there is one, for `w` [k, n], `k` narrow.
pub fn few_terms(k: usize, x: &[f32], w: &[f32], c: Option<&[f32]>, y: &mut [f32]) {
    let n = w.len() / k;
    y.par_chunks_mut(n * ROWS)
        .zip(x.par_chunks(k * ROWS))
        .enumerate()
        .for_each(|(task, (y, x))| {
            for (row, (y, x)) in y.chunks_mut(n).zip(x.chunks(k)).enumerate() {
                let c = c.map(|c| &c[(task * ROWS + row) * n..][..n]);
                sum_of_rows(x, w, c, y);
            }
        });
}

vectorised! {
    /// y[n] = c + Σ x[i]·w[i]
    fn sum_of_rows(x: &[f32], w: &[f32], c: Option<&[f32]>, y: &mut [f32]) {
        let n = y.len();
        let mut chunks = y.chunks_exact_mut(COLUMNS);
        for (chunk, y) in chunks.by_ref().enumerate() {
            let mut sums = match c {
                Some(c) => *c[chunk * COLUMNS..].first_chunk().expect("a row of y"),
                None => [0.0; COLUMNS],
            };
            for (row, x) in x.iter().enumerate() {
                let w = &w[row * n + chunk * COLUMNS..][..COLUMNS];
                for (sum, w) in sums.iter_mut().zip(w) {
                    *sum = multiply_add::<FUSED>(*x, *w, *sum);
                }
            }
            y.copy_from_slice(&sums);
        }
        let y = chunks.into_remainder();
        let first = n - y.len();
        match c {
            Some(c) => y.copy_from_slice(&c[first..]),
            None => y.fill(0.0),
        }
        for (row, x) in x.iter().enumerate() {
            for (y, w) in y.iter_mut().zip(&w[row * n + first..]) {
                *y += x * w;
            }
        }
    }
}

/// y[m, n] = xᵀ·w for `x` [k, m], `m` narrow, and `w` [k, n].
pub fn few_rows(m: usize, x: &[f32], w: &[f32], y: &mut [f32]) {
    let n = y.len() / m;
    // Spans of lines, whatever the number of threads: sums round the same with any.
    let mut sums: Vec<Buffer> = (x.par_chunks(m * SPAN))
        .zip(w.par_chunks(n * SPAN))
        .map(|(x, w)| {
            let mut sums = Buffer::zeros(m * n);
            for (x, w) in x.chunks(m * LINES).zip(w.chunks(n * LINES)) {
                add_outer(m, x, w, &mut sums);
            }
            sums
        })
        .collect();
    let rest = sums.split_off(1);
    y.copy_from_slice(&sums[0]);
    for sums in rest {
        for (y, sum) in y.iter_mut().zip(sums.iter()) {
            *y += sum;
        }
    }
}

vectorised! {
    /// sums[m, n] += Σ_k x[k, m]ᵀ·w[k, n], for at most `LINES` lines: a sum is read and written once for all.
    fn add_outer(m: usize, x: &[f32], w: &[f32], sums: &mut [f32]) {
        let n = sums.len() / m;
        for (row, sums) in sums.chunks_exact_mut(n).enumerate() {
            if x.len() == m * LINES {
                let w: [&[f32]; LINES] = std::array::from_fn(|k| &w[k * n..][..n]);
                let x: [f32; LINES] = std::array::from_fn(|k| x[k * m + row]);
                for (column, sum) in sums.iter_mut().enumerate() {
                    let mut added = 0.0;
                    for k in 0..LINES {
                        added = multiply_add::<FUSED>(x[k], w[k][column], added);
                    }
                    *sum += added;
                }
            } else {
                for (x, w) in x.chunks_exact(m).zip(w.chunks_exact(n)) {
                    for (sum, w) in sums.iter_mut().zip(w) {
                        *sum += x[row] * w;
                    }
                }
            }
        }
    }
}

/// [rows, columns] to [columns, rows].
pub fn transposed(x: &[f32], columns: usize) -> Vec<f32> {
    let rows = x.len() / columns.max(1);
    let mut y = vec![0.0; x.len()];
    for first in (0..rows).step_by(8) {
        for (column, y) in y.chunks_exact_mut(rows).enumerate() {
            for (row, y) in y[first..rows.min(first + 8)].iter_mut().enumerate() {
                *y = x[(first + row) * columns + column];
            }
        }
    }
    y
}
