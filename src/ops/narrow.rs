//! Columns `start..start + len` of the last axis, and back: the parts of a fused projection.

use crate::backend::cpu::for_rows;
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

#[derive(Debug)]
struct Narrow {
    start: usize,
    len: usize,
}

/// The gradient of `Narrow`: the columns put back among zeros.
#[derive(Debug)]
struct Widen {
    start: usize,
    total: usize,
}

impl Tensor {
    /// Columns `start..start + len` of the last axis.
    pub fn narrow(&self, start: usize, len: usize) -> Result<Tensor> {
        apply(Narrow { start, len }, &[self])
    }

    fn widen(&self, start: usize, total: usize) -> Result<Tensor> {
        apply(Widen { start, total }, &[self])
    }
}

impl Op for Narrow {
    fn name(&self) -> &'static str {
        "narrow"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        if self.start + self.len > x[0].shape().last() {
            let end = self.start + self.len;
            bail!(
                Internal,
                "narrow: columns {}..{end} of {}",
                self.start,
                x[0].shape()
            );
        }
        Ok(x[0].shape().with_last(self.len))
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (values, total) = (x[0].values()?, x[0].shape().last());
        for_rows(y, self.len, |row, y| {
            let at = row * total + self.start;
            y.copy_from_slice(&values[at..at + self.len]);
        });
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::NOTHING
    }

    fn vjp(
        &self,
        x: &[Tensor],
        _wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(dy.widen(self.start, x[0].shape().last())?)])
    }
}

impl Op for Widen {
    fn name(&self) -> &'static str {
        "widen"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        if self.start + x[0].shape().last() > self.total {
            bail!(
                Internal,
                "widen: {} at {} of {}",
                x[0].shape(),
                self.start,
                self.total
            );
        }
        Ok(x[0].shape().with_last(self.total))
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (values, len) = (x[0].values()?, x[0].shape().last());
        for_rows(y, self.total, |row, y| {
            y.fill(0.0);
            y[self.start..self.start + len].copy_from_slice(&values[row * len..(row + 1) * len]);
        });
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::NOTHING
    }

    fn vjp(
        &self,
        x: &[Tensor],
        _wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(dy.narrow(self.start, x[0].shape().last())?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{check, values};

    #[test]
    fn columns_taken_out_and_put_back_follow_the_formula() {
        for (rows, total, start, len) in
            [(1, 1, 0, 1), (3, 7, 2, 4), (7, 33, 0, 5), (2, 257, 200, 57)]
        {
            check(
                &[values([rows, total])],
                |x| x[0].narrow(start, len),
                |x| {
                    let rows = x[0].chunks(total);
                    rows.flat_map(|row| row[start..start + len].to_vec())
                        .collect()
                },
            );
            check(
                &[values([rows, len])],
                |x| x[0].widen(start, total),
                |x| {
                    let mut wide = vec![0.0; rows * total];
                    for (wide, row) in wide.chunks_mut(total).zip(x[0].chunks(len)) {
                        wide[start..start + len].copy_from_slice(row);
                    }
                    wide
                },
            );
        }
    }

    #[test]
    fn columns_past_the_end_are_refused() {
        let x = Tensor::new(vec![0.0; 6], [2, 3]).unwrap();
        assert!(x.narrow(2, 2).is_err() && x.narrow(4, 0).is_err() && x.widen(1, 3).is_err());
    }
}
