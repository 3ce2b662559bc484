//! Columns of a trained matrix picked by id: y[t] = A[:, ids[t]]. The gradient of a column adds up over its uses.

use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

#[derive(Debug)]
struct Columns;

impl Tensor {
    /// self: [rank, vocab]; `ids`: u32 [time]. Gives [time, rank]; an id past the last column is an error.
    pub fn columns(&self, ids: &Tensor) -> Result<Tensor> {
        apply(Columns, &[self, ids])
    }
}

impl Op for Columns {
    fn name(&self) -> &'static str {
        "columns"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let matrix = x[0].shape();
        let ids = x[1].ids()?;
        if matrix.len() != 2 || ids.iter().any(|&id| id as usize >= matrix.last()) {
            bail!(
                Internal,
                "columns: {:?} of a matrix {matrix}",
                ids.iter().max()
            );
        }
        Ok(Shape::from([ids.len(), matrix[0]]))
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (values, ids) = (x[0].values()?, x[1].ids()?);
        let (rank, vocab) = (x[0].shape().rows(), x[0].shape().last());
        for (y, &id) in y.chunks_mut(rank).zip(ids) {
            for (k, y) in y.iter_mut().enumerate() {
                *y = values[k * vocab + id as usize];
            }
        }
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::inputs(&[1])
    }

    fn vjp(
        &self,
        x: &[Tensor],
        wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        if !wanted[0] {
            return Ok(vec![None, None]);
        }
        let (rank, vocab) = (x[0].shape().rows(), x[0].shape().last());
        let mut da = vec![0.0; rank * vocab];
        for (dy, &id) in dy.values()?.chunks(rank).zip(x[1].ids()?) {
            for (k, dy) in dy.iter().enumerate() {
                da[k * vocab + id as usize] += dy;
            }
        }
        Ok(vec![Some(Tensor::new(da, [rank, vocab])?), None])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{check, ids, random, values};

    #[test]
    fn columns_and_their_gradients_follow_the_formula() {
        for (rank, vocab) in [(1, 1), (3, 7), (7, 33)] {
            let last = vocab as u32 - 1;
            check(
                &[values([rank, vocab]), ids(&[last, 0, last / 2, last])],
                |x| x[0].columns(&x[1]),
                |x| {
                    let column = |id: &f64| {
                        let id = *id as usize;
                        (0..rank).map(move |k| k * vocab + id)
                    };
                    x[1].iter().flat_map(column).map(|at| x[0][at]).collect()
                },
            );
        }
    }

    #[test]
    fn an_id_past_the_last_column_is_refused() {
        let ids = Tensor::of_u32(vec![0, 3], [2]).unwrap();
        assert!(random([2, 3]).columns(&ids).is_err());
    }
}
