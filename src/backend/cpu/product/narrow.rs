//! Products with a side of a few rows or columns, those of an adapter's factors: too thin to be worth laying out for tiles,
//! bound by reading the other operand once.

use rayon::prelude::*;

use crate::backend::cpu::features::vectorised;

/// The longest side that counts as narrow.
pub const NARROW: usize = 32;

const LANES: usize = 16;
/// Rows of the longer operand that one task takes.
const ROWS: usize = 32;
/// Columns whose sums one task keeps.
const COLUMNS: usize = 64;

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

vectorised! {
    /// y[n] = w·x for `w` [n, k]: eight rows of w for each reading of x.
    fn dots_of_row(x: &[f32], w: &[f32], y: &mut [f32]) {
        let k = x.len();
        let (eights, rest) = y.as_chunks_mut::<8>();
        for (eight, y) in eights.iter_mut().enumerate() {
            *y = dots(x, &w[8 * eight * k..]);
        }
        let first = 8 * eights.len();
        for (row, y) in rest.iter_mut().enumerate() {
            [*y] = dots(x, &w[(first + row) * k..]);
        }
    }
}

#[inline(always)]
fn dots<const N: usize>(x: &[f32], w: &[f32]) -> [f32; N] {
    let k = x.len();
    let mut sums = [[0.0; LANES]; N];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for (chunk, x) in chunks.iter().enumerate() {
        for (row, sums) in sums.iter_mut().enumerate() {
            let w = &w[row * k + chunk * LANES..][..LANES];
            for ((sum, x), w) in sums.iter_mut().zip(x).zip(w) {
                *sum += x * w;
            }
        }
    }
    let done = k - rest.len();
    std::array::from_fn(|row| {
        let tail = rest.iter().zip(&w[row * k + done..]).map(|(x, w)| x * w);
        sums[row].iter().sum::<f32>() + tail.sum::<f32>()
    })
}

/// y[m, n] = x[m, k]·w for `w` [k, n], `k` narrow.
pub fn few_terms(k: usize, x: &[f32], w: &[f32], y: &mut [f32]) {
    let n = w.len() / k;
    y.par_chunks_mut(n * ROWS)
        .zip(x.par_chunks(k * ROWS))
        .for_each(|(y, x)| {
            for (y, x) in y.chunks_mut(n).zip(x.chunks(k)) {
                sum_of_rows(x, w, y);
            }
        });
}

vectorised! {
    /// y[n] = Σ x[i]·w[i]
    fn sum_of_rows(x: &[f32], w: &[f32], y: &mut [f32]) {
        let n = y.len();
        let mut chunks = y.chunks_exact_mut(COLUMNS);
        for (chunk, y) in chunks.by_ref().enumerate() {
            let mut sums = [0.0; COLUMNS];
            for (row, x) in x.iter().enumerate() {
                let w = &w[row * n + chunk * COLUMNS..][..COLUMNS];
                for (sum, w) in sums.iter_mut().zip(w) {
                    *sum += x * w;
                }
            }
            y.copy_from_slice(&sums);
        }
        let y = chunks.into_remainder();
        let first = n - y.len();
        y.fill(0.0);
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
    // Columns first: [n / COLUMNS, m, COLUMNS], so that a task owns what it writes.
    let sums: Vec<Vec<f32>> = (0..n.div_ceil(COLUMNS / 2))
        .into_par_iter()
        .map(|chunk| {
            let first = chunk * COLUMNS / 2;
            let columns = (COLUMNS / 2).min(n - first);
            let mut sums = vec![0.0; m.next_multiple_of(8) * columns];
            for (eight, sums) in sums.chunks_mut(8 * columns).enumerate() {
                let part = Part { m, n, row: 8 * eight, column: first };
                outer_sums(&part, x, w, sums);
            }
            sums
        })
        .collect();
    for (chunk, sums) in sums.iter().enumerate() {
        let first = chunk * COLUMNS / 2;
        let columns = (COLUMNS / 2).min(n - first);
        for (row, sums) in sums.chunks(columns).enumerate().take(m) {
            y[row * n + first..][..columns].copy_from_slice(sums);
        }
    }
}

/// Eight rows and some columns of a result.
struct Part {
    m: usize,
    n: usize,
    row: usize,
    column: usize,
}

vectorised! {
    /// sums[8, columns] = Σ_k x[k, row..]ᵀ·w[k, column..]; rows from `m` on stay 0.
    fn outer_sums(part: &Part, x: &[f32], w: &[f32], sums: &mut [f32]) {
        const WIDE: usize = COLUMNS / 2;
        let rows = (part.m - part.row).min(8);
        let columns = sums.len() / 8;
        let lines = x.chunks_exact(part.m).zip(w.chunks_exact(part.n));
        if rows == 8 && columns == WIDE {
            let mut wide = [[0.0; WIDE]; 8];
            for (x, w) in lines {
                let x: &[f32; 8] = x[part.row..].first_chunk().expect("eight rows");
                let w: &[f32; WIDE] = w[part.column..].first_chunk().expect("whole columns");
                for (wide, x) in wide.iter_mut().zip(x) {
                    for (sum, w) in wide.iter_mut().zip(w) {
                        *sum += x * w;
                    }
                }
            }
            sums.copy_from_slice(wide.as_flattened());
            return;
        }
        for (x, w) in lines {
            for (sums, x) in sums.chunks_exact_mut(columns).zip(&x[part.row..part.row + rows]) {
                for (sum, w) in sums.iter_mut().zip(&w[part.column..]) {
                    *sum += x * w;
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
