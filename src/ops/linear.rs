//! y = x·Wᵀ with a frozen weight, and its gradient dx = dy·W. The weight stays packed; row blocks of it are unpacked
//! into a panel that fits the cache, used, and forgotten.

use std::borrow::Cow;

use rayon::prelude::*;

use crate::backend::cpu::{View, matmul};
use crate::bail;
use crate::error::Result;
use crate::quant::{Format, Weight};
use crate::shape::Shape;
use crate::tensor::{Op, Tensor, apply};

/// Values in a panel: 1 MiB, half of a common second-level cache.
const PANEL_VALUES: usize = 256 * 1024;

/// Which way the weight [out, in] is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// [.., in] to [.., out]
    Forward,
    /// [.., out] to [.., in]
    Backward,
}

struct Linear {
    weight: Weight,
    direction: Direction,
}

impl std::fmt::Debug for Linear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (format, shape) = (self.weight.format(), self.weight.shape());
        write!(f, "Linear({format:?} {shape}, {:?})", self.direction)
    }
}

impl Tensor {
    /// self·Wᵀ: [.., in] with the frozen `weight` [out, in] gives [.., out].
    pub fn linear(&self, weight: &Weight) -> Result<Tensor> {
        let direction = Direction::Forward;
        apply(
            Linear {
                weight: weight.clone(),
                direction,
            },
            &[self],
        )
    }

    /// self·W: [.., out] with the frozen `weight` [out, in] gives [.., in].
    pub fn linear_transposed(&self, weight: &Weight) -> Result<Tensor> {
        let direction = Direction::Backward;
        apply(
            Linear {
                weight: weight.clone(),
                direction,
            },
            &[self],
        )
    }
}

/// Calls `each(first_row, panel)` for consecutive row blocks of `weight`, unpacked to f32.
pub(super) fn for_panels(
    weight: &Weight,
    mut each: impl FnMut(usize, &[f32]) -> Result<()>,
) -> Result<()> {
    let (rows, columns) = (weight.shape().rows(), weight.shape().last());
    let panel_rows = (PANEL_VALUES / columns.max(1)).clamp(1, rows.max(1));
    let mut buffer = Vec::new();
    for first in (0..rows).step_by(panel_rows) {
        let count = panel_rows.min(rows - first);
        let panel = panel(weight, first, count, &mut buffer)?;
        each(first, &panel)?;
    }
    Ok(())
}

/// Rows `first..first + count` in f32: borrowed where the file holds f32 already, else unpacked into `buffer`.
fn panel<'a>(
    weight: &'a Weight,
    first: usize,
    count: usize,
    buffer: &'a mut Vec<f32>,
) -> Result<Cow<'a, [f32]>> {
    let columns = weight.shape().last();
    if weight.format() == Format::F32
        && let Ok(values) = weight.bytes().as_f32()
    {
        return Ok(Cow::Borrowed(
            &values[first * columns..(first + count) * columns],
        ));
    }
    buffer.resize(count * columns, 0.0);
    let rows_per_task = count.div_ceil(rayon::current_num_threads() * 2).max(1);
    buffer
        .par_chunks_mut(rows_per_task * columns)
        .enumerate()
        .try_for_each(|(task, rows)| weight.unpack_rows(first + task * rows_per_task, rows))?;
    Ok(Cow::Borrowed(buffer))
}

impl Op for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let weight = self.weight.shape();
        let (from, to) = match self.direction {
            Direction::Forward => (weight.last(), weight.rows()),
            Direction::Backward => (weight.rows(), weight.last()),
        };
        if x[0].shape().last() != from {
            bail!(
                Internal,
                "linear: weight {weight} ({:?}) needs a last axis of {from}, x is {}",
                self.direction,
                x[0].shape()
            );
        }
        Ok(x[0].shape().with_last(to))
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let values = x[0].values()?;
        let (outputs, inputs) = (self.weight.shape().rows(), self.weight.shape().last());
        let time = x[0].shape().rows();
        let threads = rayon::current_num_threads();
        for_panels(&self.weight, |first, panel| {
            let count = panel.len() / inputs;
            let panel = View::rows(panel, inputs);
            match self.direction {
                Direction::Forward => {
                    let x = View::rows(values, inputs);
                    let size = (time, count, inputs);
                    matmul(
                        size,
                        1.0,
                        x,
                        panel.transposed(),
                        0.0,
                        &mut y[first..],
                        outputs,
                        threads,
                    );
                }
                Direction::Backward => {
                    let dy = View::rows(&values[first..], outputs);
                    let keep = if first == 0 { 0.0 } else { 1.0 };
                    matmul(
                        (time, inputs, count),
                        1.0,
                        dy,
                        panel,
                        keep,
                        y,
                        inputs,
                        threads,
                    );
                }
            }
            Ok(())
        })?;
        Ok(None)
    }

    fn vjp(
        &self,
        _x: &[Tensor],
        _wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(match self.direction {
            Direction::Forward => dy.linear_transposed(&self.weight)?,
            Direction::Backward => dy.linear(&self.weight)?,
        })])
    }
}
