//! Loops over the rows of a result, shared out to the threads of the current pool.

use rayon::prelude::*;

use crate::backend::cpu::features::vectorise;

/// Values a thread should have to work on before a second one is worth waking.
const GRAIN: usize = 16 * 1024;

/// Calls `each(index, row)` for every row of `row_len` values in `y`, in parallel when there is enough to do.
pub fn for_rows(y: &mut [f32], row_len: usize, each: impl Fn(usize, &mut [f32]) + Sync + Send) {
    if row_len == 0 {
        return;
    }
    let rows_per_task = GRAIN.div_ceil(row_len);
    if y.len() <= GRAIN {
        vectorise(|| {
            for (index, row) in y.chunks_mut(row_len).enumerate() {
                each(index, row);
            }
        });
        return;
    }
    y.par_chunks_mut(row_len * rows_per_task)
        .enumerate()
        .for_each(|(task, rows)| {
            vectorise(|| {
                for (index, row) in rows.chunks_mut(row_len).enumerate() {
                    each(task * rows_per_task + index, row);
                }
            });
        });
}

/// Calls `each(index, row of a, row of b)` for the rows of two results of one shape, in parallel like [`for_rows`].
pub fn for_rows_of_two(
    a: &mut [f32],
    b: &mut [f32],
    row_len: usize,
    each: impl Fn(usize, &mut [f32], &mut [f32]) + Sync + Send,
) {
    let mut rows: Vec<_> = a
        .chunks_mut(row_len.max(1))
        .zip(b.chunks_mut(row_len.max(1)))
        .collect();
    for_items(&mut rows, row_len, |index, (a, b)| each(index, a, b));
}

/// Calls `each(index, item)` for every item, in parallel when `items.len()` times `cost` values is enough to do.
pub fn for_items<T: Send>(
    items: &mut [T],
    cost: usize,
    each: impl Fn(usize, &mut T) + Sync + Send,
) {
    let items_per_task = GRAIN.div_ceil(cost.max(1));
    items
        .par_chunks_mut(items_per_task)
        .enumerate()
        .for_each(|(task, items)| {
            vectorise(|| {
                for (index, item) in items.iter_mut().enumerate() {
                    each(task * items_per_task + index, item);
                }
            });
        });
}
