//! Products with a side of a few rows or columns, those of an adapter's factors: too thin to be worth laying out for tiles,
//! bound by reading the other operand once.

use rayon::prelude::*;

use super::pack::side_by_side;
use crate::backend::Buffer;
use crate::backend::cpu::features::vectorised;
use crate::backend::cpu::lanes::{LANES, Lanes};
use crate::backend::cpu::product::Matrix;
use crate::error::Result;

/// The longest side that counts as narrow.
pub const NARROW: usize = 32;

/// Rows of the longer operand that one task takes.
const ROWS: usize = 32;
/// Columns of a sum over the rows of both operands that one task takes, and lines that are summed before they join the rest:
/// the same with any number of threads, so that sums round the same.
const STRIPE: usize = 2 * LANES;
const SPAN: usize = 128;

/// y[m, n] = x[m, k]·wᵀ for `w` [n, k], `n` narrow.
pub fn few_outputs(k: usize, x: &[f32], w: &[f32], y: &mut [f32]) {
    let n = w.len() / k;
    y.par_chunks_mut(n * ROWS)
        .zip(x.par_chunks(k * ROWS))
        .for_each(|(y, x)| {
            dots(k, x, w, y);
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
            dots(k, x, rows, sums);
            for (y, sum) in y.iter_mut().zip(sums) {
                *y = if keep { *y + *sum } else { *sum };
            }
            Ok(())
        },
    )
}

vectorised! {
    /// y[m, n] = x[m, k]·wᵀ for `w` [n, k].
    fn dots(k: usize, x: &[f32], w: &[f32], y: &mut [f32]) {
        let n = w.len() / k;
        match (L::MANY, x.len() > k) {
            (true, true) => dots_by_tiles::<L, 2, 8>(k, x, w, y, n),
            (true, false) => dots_by_tiles::<L, 1, 8>(k, x, w, y, n),
            (false, _) => dots_by_tiles::<L, 1, 4>(k, x, w, y, n),
        }
    }
}

/// `M` rows of x by `N` rows of w at a time.
#[inline(always)]
fn dots_by_tiles<L: Lanes, const M: usize, const N: usize>(
    k: usize,
    x: &[f32],
    w: &[f32],
    y: &mut [f32],
    n: usize,
) {
    for (x, y) in x.chunks(M * k).zip(y.chunks_mut(M * n)) {
        for first in (0..n).step_by(N) {
            let w = &w[first * k..n.min(first + N) * k];
            match x.len() == M * k && w.len() == N * k {
                true => dots_of_tile::<L, M, N>(k, x, w, &mut y[first..], n),
                false => {
                    for (x, y) in x.chunks(k).zip(y.chunks_mut(n)) {
                        for (w, y) in w.chunks(k).zip(&mut y[first..]) {
                            dots_of_tile::<L, 1, 1>(k, x, w, std::slice::from_mut(y), 1);
                        }
                    }
                }
            }
        }
    }
}

/// y[M, N] = x[M, k]·wᵀ for `w` [N, k]; rows of y are `stride` apart.
#[inline(always)]
fn dots_of_tile<L: Lanes, const M: usize, const N: usize>(
    k: usize,
    x: &[f32],
    w: &[f32],
    y: &mut [f32],
    stride: usize,
) {
    let whole = k / LANES;
    let (x_lines, w_lines) = (lines::<M>(k, x), lines::<N>(k, w));
    let mut sums = [[L::splat(0.0); N]; M];
    for at in 0..whole {
        let mut x = [L::splat(0.0); M];
        for (x, line) in x.iter_mut().zip(x_lines) {
            *x = L::load(&line[at]);
        }
        for (column, w) in w_lines.iter().enumerate() {
            let w = L::load(&w[at]);
            for (sums, x) in sums.iter_mut().zip(x) {
                sums[column] = x.mul_add(w, sums[column]);
            }
        }
    }
    if whole * LANES < k {
        for (x, sums) in x.chunks(k).zip(&mut sums) {
            let x = L::load_part(&x[whole * LANES..]);
            for (w, sum) in w.chunks(k).zip(sums) {
                *sum = x.mul_add(L::load_part(&w[whole * LANES..]), *sum);
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        for (y, sum) in y[row * stride..].iter_mut().zip(sums) {
            *y = sum.sum();
        }
    }
}

/// What is whole of `N` rows of `k` values, sixteen at a time.
#[inline(always)]
fn lines<const N: usize>(k: usize, values: &[f32]) -> [&[[f32; LANES]]; N] {
    let mut lines: [&[[f32; LANES]]; N] = [&[]; N];
    for (lines, row) in lines.iter_mut().zip(values.chunks(k)) {
        *lines = &row.as_chunks().0[..k / LANES];
    }
    lines
}

/// y[m, n] = x[m, k]·w, plus `c` [m, n] if there is one, for `w` [k, n], `k` narrow.
pub fn few_terms(k: usize, x: &[f32], w: &[f32], c: Option<&[f32]>, y: &mut [f32]) {
    let n = w.len() / k;
    y.par_chunks_mut(n * ROWS)
        .zip(x.par_chunks(k * ROWS))
        .enumerate()
        .for_each(|(task, (y, x))| {
            let c = c.map(|c| &c[task * ROWS * n..][..y.len()]);
            sums_of_rows(k, x, w, c, y);
        });
}

vectorised! {
    /// y[m, n] = c + x[m, k]·w for `w` [k, n].
    fn sums_of_rows(k: usize, x: &[f32], w: &[f32], c: Option<&[f32]>, y: &mut [f32]) {
        let n = w.len() / k;
        if L::MANY {
            sums_by_tiles::<L, 2, 4>((k, n), x, w, c, y);
        } else {
            sums_by_tiles::<L, 1, 4>((k, n), x, w, c, y);
        }
    }
}

/// `M` rows of x and `N` times sixteen columns at a time.
#[inline(always)]
fn sums_by_tiles<L: Lanes, const M: usize, const N: usize>(
    (k, n): (usize, usize),
    x: &[f32],
    w: &[f32],
    c: Option<&[f32]>,
    y: &mut [f32],
) {
    let m = x.len() / k;
    let wide = n - n % (N * LANES);
    for row in (0..m).step_by(M) {
        let (x, y) = (&x[row * k..], &mut y[row * n..]);
        let c = c.map(|c| &c[row * n..]);
        if m - row < M {
            for (row, x) in x.chunks(k).enumerate() {
                for at in (0..n).step_by(LANES) {
                    let c = c.map(|c| &c[row * n + at..]);
                    sums_of_tile::<L, 1, 1>((k, n), x, &w[at..], c, &mut y[row * n + at..], n - at);
                }
            }
            continue;
        }
        for at in (0..wide).step_by(N * LANES) {
            let c = c.map(|c| &c[at..]);
            sums_of_tile::<L, M, N>((k, n), x, &w[at..], c, &mut y[at..], N * LANES);
        }
        for at in (wide..n).step_by(LANES) {
            let c = c.map(|c| &c[at..]);
            sums_of_tile::<L, M, 1>((k, n), x, &w[at..], c, &mut y[at..], n - at);
        }
    }
}

/// y[M, N·16] = c + x[M, k]·w; rows of w, c and y are `n` apart, and only `columns` of them are there.
#[inline(always)]
fn sums_of_tile<L: Lanes, const M: usize, const N: usize>(
    (k, n): (usize, usize),
    x: &[f32],
    w: &[f32],
    c: Option<&[f32]>,
    y: &mut [f32],
    columns: usize,
) {
    let columns = columns.min(N * LANES);
    let mut sums = [[L::splat(0.0); N]; M];
    for term in 0..k {
        let w = line::<L, N>(&w[term * n..][..columns]);
        for (row, sums) in sums.iter_mut().enumerate() {
            add_multiple(x[row * k + term], w, sums);
        }
    }
    for (row, mut sums) in sums.into_iter().enumerate() {
        if let Some(c) = c {
            add_multiple(1.0, line(&c[row * n..][..columns]), &mut sums);
        }
        for (y, sum) in y[row * n..][..columns].chunks_mut(LANES).zip(sums) {
            sum.store_part(y);
        }
    }
}

/// `N` times sixteen values; where `N` is one, also fewer.
#[inline(always)]
fn line<L: Lanes, const N: usize>(values: &[f32]) -> [L; N] {
    let mut line = [L::splat(0.0); N];
    for (line, values) in line.iter_mut().zip(values.chunks(LANES)) {
        *line = L::load_part(values);
    }
    line
}

/// sums += x·w
#[inline(always)]
fn add_multiple<L: Lanes, const N: usize>(x: f32, w: [L; N], sums: &mut [L; N]) {
    let x = L::splat(x);
    for (sum, w) in sums.iter_mut().zip(w) {
        *sum = x.mul_add(w, *sum);
    }
}

/// y[m, n] = xᵀ·w for `x` [k, m], `m` narrow, and `w` [k, n].
pub fn few_rows(m: usize, x: &[f32], w: &[f32], y: &mut [f32]) {
    let n = y.len() / m;
    let stripes: Vec<Vec<f32>> = (0..n.div_ceil(STRIPE))
        .into_par_iter()
        .map(|stripe| {
            let columns = STRIPE.min(n - stripe * STRIPE);
            let mut sums = vec![0.0; m * columns];
            for (x, w) in x.chunks(m * SPAN).zip(w.chunks(n * SPAN)) {
                add_outer(m, x, &w[stripe * STRIPE..], n, columns, &mut sums);
            }
            sums
        })
        .collect();
    for (stripe, sums) in stripes.iter().enumerate() {
        let columns = sums.len() / m;
        for (y, sums) in y.chunks_mut(n).zip(sums.chunks(columns)) {
            y[stripe * STRIPE..][..columns].copy_from_slice(sums);
        }
    }
}

vectorised! {
    /// sums[m, columns] += x[k, m]ᵀ·w; rows of w are `n` apart, `columns` at most `STRIPE`.
    fn add_outer(m: usize, x: &[f32], w: &[f32], n: usize, columns: usize, sums: &mut [f32]) {
        let whole = columns == STRIPE;
        let mut row = 0;
        while row < m {
            let (x, sums) = (&x[row..], &mut sums[row * columns..]);
            row += match m - row {
                8.. if L::MANY && whole => outer_of_tile::<L, 8, 2>(m, x, w, n, columns, sums),
                4.. if !L::MANY && whole => {
                    outer_of_tile::<L, 4, 1>(m, x, w, n, columns, sums);
                    outer_of_tile::<L, 4, 1>(m, x, &w[LANES..], n, columns, &mut sums[LANES..])
                }
                _ => outer_of_tile::<L, 1, 2>(m, x, w, n, columns, sums),
            };
        }
    }
}

/// Adds `M` rows and `N` times sixteen columns, of which `columns` are there; gives `M`.
#[inline(always)]
fn outer_of_tile<L: Lanes, const M: usize, const N: usize>(
    m: usize,
    x: &[f32],
    w: &[f32],
    n: usize,
    columns: usize,
    sums: &mut [f32],
) -> usize {
    let there = columns.min(N * LANES);
    let mut tile = [[L::splat(0.0); N]; M];
    for (x, w) in x.chunks(m).zip(w.chunks(n)) {
        let w = line::<L, N>(&w[..there]);
        for (x, sums) in x.iter().zip(&mut tile) {
            add_multiple(*x, w, sums);
        }
    }
    for (mut tile, sums) in tile.into_iter().zip(sums.chunks_mut(columns)) {
        let sums = &mut sums[..there];
        add_multiple(1.0, line(sums), &mut tile);
        for (sums, sum) in sums.chunks_mut(LANES).zip(tile) {
            sum.store_part(sums);
        }
    }
    M
}

/// [rows, columns] to [columns, rows].
pub fn transposed(x: &[f32], columns: usize) -> Vec<f32> {
    let rows = x.len() / columns.max(1);
    let mut y = vec![0.0; x.len()];
    let groups = bytemuck::cast_slice_mut(&mut y);
    side_by_side(
        (rows, columns),
        bytemuck::cast_slice(x),
        columns,
        groups,
        rows,
    );
    y
}
