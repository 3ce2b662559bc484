//! W + s·B·A in full, and DoRA's m·(W + s·B·A) / ‖W + s·B·A‖: row block by row block, so that no whole weight is unpacked.

use rayon::prelude::*;

use crate::backend::cpu::product::Kernel;
use crate::backend::cpu::{Old, Room, Strips, View, for_items, matmul};
use crate::bail;
use crate::error::Result;
use crate::lora::{LayerKind, Pair};
use crate::quant::Weight;

/// Rows that one task multiplies.
const ROWS: usize = 64;

/// s·B·A of one layer, to be added to its weight.
#[derive(Clone, Copy)]
pub(super) struct Product<'a> {
    pub kind: LayerKind,
    /// [rank, in]
    pub a: &'a [f32],
    /// [out, rank]
    pub b: &'a [f32],
    pub rank: usize,
    pub scale: f32,
}

impl Product<'_> {
    /// Adds the product's rows from `first` on to `rows`, those of the weight with `columns` each.
    fn add_to(&self, first: usize, rows: &mut [f32], columns: usize) {
        let rank = self.rank;
        let right = match self.kind {
            LayerKind::Linear => self.a,
            LayerKind::Embedding => self.b,
        };
        let right: Vec<f32> = right.iter().map(|value| self.scale * value).collect();
        let (left, right) = match self.kind {
            LayerKind::Linear => (
                View::rows(&self.b[first * rank..], rank),
                View::rows(&right, columns),
            ),
            // (B·A)ᵀ = Aᵀ·Bᵀ, rows `first..` of which are columns of A.
            LayerKind::Embedding => (
                View::rows(&self.a[first..], self.a.len() / rank).transposed(),
                View::rows(&right, rank).transposed(),
            ),
        };
        let right = Strips::of(Kernel::f32(), (rank, columns), right);
        rows.par_chunks_mut(ROWS * columns)
            .enumerate()
            .for_each_init(Room::default, |room, (task, rows)| {
                let (left, count) = (left.below(task * ROWS), rows.len() / columns);
                matmul(count, left, right.all(), Old::AddedTo, rows, columns, room);
            });
    }
}

/// The L2 lengths of the outputs of `weight` plus `product`: of its rows, or of the columns of an embedding table. [out]
///
/// The sum is formed and measured block by block. Expanding ‖W‖² + 2s⟨W, BA⟩ + s²‖BA‖² would unpack W as well, and
/// lose digits where the terms cancel.
pub(super) fn lengths(
    weight: &Weight,
    kind: LayerKind,
    product: Option<Product>,
) -> Result<Vec<f32>> {
    let columns = weight.shape().last();
    let (outputs, _) = kind.sides(weight.shape().rows(), columns);
    let mut squares = vec![0.0_f64; outputs];
    let mut sum = Vec::new();
    for_panels(weight, |first, panel| {
        let rows = match product {
            Some(product) => {
                sum.clear();
                sum.extend_from_slice(panel);
                product.add_to(first, &mut sum, columns);
                &sum
            }
            None => panel,
        };
        match kind {
            LayerKind::Linear => {
                let count = rows.len() / columns;
                for_items(
                    &mut squares[first..first + count],
                    columns,
                    |row, square| {
                        *square = sum_of_squares(&rows[row * columns..][..columns]);
                    },
                );
            }
            LayerKind::Embedding => {
                for row in rows.chunks_exact(columns) {
                    for (square, x) in squares.iter_mut().zip(row) {
                        *square += f64::from(*x).powi(2);
                    }
                }
            }
        }
        Ok(())
    })?;
    Ok(squares
        .into_iter()
        .map(|square| square.sqrt() as f32)
        .collect())
}

/// f32 values that are unpacked at a time.
pub(crate) const PANEL_BYTES: usize = 1 << 20;

/// Calls `each(first_row, rows)` for consecutive row blocks of `weight`, unpacked to f32 on all threads.
fn for_panels(weight: &Weight, mut each: impl FnMut(usize, &[f32]) -> Result<()>) -> Result<()> {
    let (rows, columns) = (weight.shape().rows(), weight.shape().last());
    let panel_rows = (PANEL_BYTES / 4 / columns.max(1)).clamp(1, rows.max(1));
    let mut panel = Vec::new();
    for first in (0..rows).step_by(panel_rows) {
        let count = panel_rows.min(rows - first);
        panel.resize(count * columns, 0.0);
        let rows_per_task = count.div_ceil(rayon::current_num_threads() * 2).max(1);
        panel
            .par_chunks_mut(rows_per_task * columns)
            .enumerate()
            .try_for_each(|(task, rows)| weight.unpack_rows(first + task * rows_per_task, rows))?;
        each(first, &panel)?;
    }
    Ok(())
}

/// In f64, eight sums side by side.
fn sum_of_squares(row: &[f32]) -> f64 {
    let mut sums = [0.0_f64; 8];
    for chunk in row.chunks(8) {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(*x).powi(2);
        }
    }
    sums.iter().sum()
}

/// What an output of length `length` is multiplied by to have length 1; an output of zeros stays one.
pub(super) fn inverse(length: f32) -> f32 {
    if length > 0.0 { 1.0 / length } else { 0.0 }
}

/// One layer's adapter, ready to be put into the layer's weight.
///
/// ```no_run
/// # fn example(weight: amv_train::quant::Weight, pair: amv_train::lora::Pair) -> amv_train::error::Result<()> {
/// use amv_train::lora::{LoraConfig, Merge};
/// let path = "model.layers.0.self_attn.q_proj";
/// let merge = Merge::new(path, &pair, LoraConfig::default().scale_of(path), &weight)?;
/// let mut rows = vec![0.0; 16 * weight.shape().last()];
/// weight.unpack_rows(32, &mut rows)?;
/// merge.rows(32, &mut rows)?; // now rows 32..48 of the merged weight
/// # Ok(()) }
/// ```
pub struct Merge<'a> {
    product: Product<'a>,
    shape: (usize, usize),
    magnitude: Option<&'a [f32]>,
    /// DoRA of an embedding: what each column is multiplied by, since a block of rows does not know its columns' lengths.
    columns: Vec<f32>,
}

impl<'a> Merge<'a> {
    /// The adapter `pair` of the layer at `path`, whose frozen weight is `weight` ([out, in], or [vocab, width] of an
    /// embedding); `scale` is [`crate::lora::LoraConfig::scale_of`] of the path. Rows of B and weight are in one order.
    ///
    /// Errors: `BAD_ADAPTER` when the shapes do not belong together. Reads the weight once for a DoRA embedding, else
    /// nothing of it.
    pub fn new(path: &str, pair: &'a Pair, scale: f32, weight: &Weight) -> Result<Merge<'a>> {
        let kind = LayerKind::of(path);
        let shape = (weight.shape().rows(), weight.shape().last());
        let (outputs, inputs) = kind.sides(shape.0, shape.1);
        let Pair { a, b, magnitude } = pair;
        let fits = (a.columns, b.rows) == (inputs, outputs)
            && a.rows == b.columns
            && magnitude.as_ref().is_none_or(|m| m.len() == outputs);
        if !fits {
            bail!(
                BadAdapter,
                "{path}: A [{}, {}] and B [{}, {}] do not fit a weight {}",
                a.rows,
                a.columns,
                b.rows,
                b.columns,
                weight.shape()
            );
        }
        let product = Product {
            kind,
            a: &a.values,
            b: &b.values,
            rank: a.rows,
            scale,
        };
        let columns = match (kind, magnitude) {
            (LayerKind::Embedding, Some(magnitude)) => {
                let lengths = lengths(weight, kind, Some(product))?;
                let factor = |(m, length): (&f32, f32)| m * inverse(length);
                magnitude.iter().zip(lengths).map(factor).collect()
            }
            _ => Vec::new(),
        };
        Ok(Merge {
            product,
            shape,
            magnitude: magnitude.as_deref(),
            columns,
        })
    }

    /// Turns `rows`, whole rows of the weight from number `first` on in f32, into those of the merged weight.
    pub fn rows(&self, first: usize, rows: &mut [f32]) -> Result<()> {
        let (all, columns) = self.shape;
        let count = rows.len() / columns;
        if !rows.len().is_multiple_of(columns) || first + count > all {
            bail!(
                Internal,
                "merge: {} values from row {first} on of a weight of {all} rows of {columns}",
                rows.len()
            );
        }
        self.product.add_to(first, rows, columns);
        match (self.product.kind, self.magnitude) {
            (_, None) => {}
            (LayerKind::Linear, Some(magnitude)) => {
                for (row, m) in rows.chunks_exact_mut(columns).zip(&magnitude[first..]) {
                    let factor = m * inverse(sum_of_squares(row).sqrt() as f32);
                    row.iter_mut().for_each(|x| *x *= factor);
                }
            }
            (LayerKind::Embedding, Some(_)) => {
                for row in rows.chunks_exact_mut(columns) {
                    row.iter_mut()
                        .zip(&self.columns)
                        .for_each(|(x, factor)| *x *= factor);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lora::Matrix;
    use crate::ops::check::{close, elements, random, weight};
    use crate::quant::Format;

    fn matrix(rows: usize, columns: usize) -> Matrix {
        Matrix {
            rows,
            columns,
            values: random([rows, columns]).values().unwrap().to_vec(),
        }
    }

    /// The merged weight element by element in f64.
    fn formula(
        w: &[f64],
        (rows, columns): (usize, usize),
        kind: LayerKind,
        pair: &Pair,
        scale: f64,
    ) -> Vec<f64> {
        let rank = pair.rank();
        let product = |out: usize, input: usize| -> f64 {
            let term = |k: usize| {
                f64::from(pair.b.values[out * rank + k])
                    * f64::from(pair.a.values[k * pair.a.columns + input])
            };
            (0..rank).map(term).sum()
        };
        let side = |i: usize, j: usize| match kind {
            LayerKind::Linear => (i, j),
            LayerKind::Embedding => (j, i),
        };
        let sum = |i: usize, j: usize| {
            let (out, input) = side(i, j);
            w[i * columns + j] + scale * product(out, input)
        };
        let (outputs, _) = kind.sides(rows, columns);
        let mut squares = vec![0.0; outputs];
        for i in 0..rows {
            for j in 0..columns {
                squares[side(i, j).0] += sum(i, j).powi(2);
            }
        }
        let each = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
        let merged = each.map(|(i, j)| match &pair.magnitude {
            Some(m) => f64::from(m[side(i, j).0]) * sum(i, j) / squares[side(i, j).0].sqrt(),
            None => sum(i, j),
        });
        merged.collect()
    }

    #[test]
    fn blocks_of_rows_merge_as_the_formula_says() {
        for (path, format) in [
            ("model.layers.0.self_attn.q_proj", Format::F32),
            ("model.layers.0.self_attn.q_proj", Format::Q4_0),
            ("model.embed_tokens", Format::F16),
            ("model.embed_tokens", Format::Q8_0),
        ] {
            let (rows, columns, scale) = (7, 64, 0.7);
            let kind = LayerKind::of(path);
            let (outputs, inputs) = kind.sides(rows, columns);
            let w = weight(format, rows, columns);
            for magnitude in [None, Some(matrix(1, outputs).values)] {
                let mut pair = Pair::new(matrix(3, inputs), matrix(outputs, 3));
                pair.magnitude = magnitude;
                let merge = Merge::new(path, &pair, scale, &w).unwrap();
                let mut merged = w.to_f32().unwrap();
                for first in [0, 3] {
                    let end = if first == 0 { 3 } else { rows };
                    merge
                        .rows(first, &mut merged[first * columns..end * columns])
                        .unwrap();
                }
                close(
                    path,
                    &merged,
                    &formula(&elements(&w), (rows, columns), kind, &pair, scale.into()),
                );
            }
        }
    }

    #[test]
    fn lengths_span_several_panels_and_a_row_of_zeros_has_none() {
        let (rows, columns) = (9_000, 32);
        let w = weight(Format::F16, rows, columns);
        let expected: Vec<f64> = elements(&w)
            .chunks(columns)
            .map(|row| row.iter().map(|x| x * x).sum::<f64>().sqrt())
            .collect();
        close(
            "lengths",
            &lengths(&w, LayerKind::Linear, None).unwrap(),
            &expected,
        );
        assert_eq!((inverse(0.0), inverse(4.0)), (0.0, 0.25));
    }

    #[test]
    fn shapes_and_rows_that_do_not_belong_together_are_refused() {
        let w = weight(Format::F32, 7, 64);
        let pair = Pair::new(matrix(3, 64), matrix(8, 3));
        assert!(Merge::new("q_proj", &pair, 1.0, &w).is_err());
        let pair = Pair::new(matrix(3, 64), matrix(7, 3));
        let merge = Merge::new("q_proj", &pair, 1.0, &w).unwrap();
        assert!(merge.rows(6, &mut [0.0; 128]).is_err());
        assert!(merge.rows(0, &mut [0.0; 63]).is_err());
    }
}
