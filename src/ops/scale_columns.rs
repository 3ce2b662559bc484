//! y = x·diag(g): every column times a number of its own.

use crate::backend::cpu::for_rows;
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

#[derive(Debug, Clone, Copy)]
struct ScaleColumns;

impl Tensor {
    /// Multiplies column c of self [.., columns] by `factors`[c]; `factors`: [columns].
    pub fn scale_columns(&self, factors: &Tensor) -> Result<Tensor> {
        apply(ScaleColumns, &[self, factors])
    }
}

impl Op for ScaleColumns {
    fn name(&self) -> &'static str {
        "scale_columns"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let (rows, factors) = (x[0].shape(), x[1].shape());
        if factors[..] != [rows.last()] {
            bail!(Internal, "scale_columns: factors {factors} for x {rows}");
        }
        Ok(rows.clone())
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (values, factors) = (x[0].values()?, x[1].values()?);
        for_rows(y, factors.len(), |row, y| {
            let x = &values[row * factors.len()..];
            for ((y, x), factor) in y.iter_mut().zip(x).zip(factors) {
                *y = x * factor;
            }
        });
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::inputs(&[0, 1])
    }

    /// dx = dy·diag(g),  dg = Σ_rows dy·x.
    fn vjp(
        &self,
        x: &[Tensor],
        wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let dx = wanted[0].then(|| dy.scale_columns(&x[1])).transpose()?;
        if !wanted[1] {
            return Ok(vec![dx, None]);
        }
        let columns = x[1].shape().last();
        let mut sum = vec![0.0; columns];
        let rows = dy.values()?.chunks(columns.max(1));
        for (dy, x) in rows.zip(x[0].values()?.chunks(columns.max(1))) {
            for ((sum, dy), x) in sum.iter_mut().zip(dy).zip(x) {
                *sum += dy * x;
            }
        }
        Ok(vec![dx, Some(Tensor::new(sum, [columns])?)])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{check, random, values};

    #[test]
    fn scaled_columns_and_their_gradients_follow_the_formula() {
        for (rows, columns) in [(1, 1), (3, 7), (33, 2), (2, 257)] {
            check(
                &[values([rows, columns]), values([columns])],
                |x| x[0].scale_columns(&x[1]),
                |x| {
                    let rows = x[0].chunks(columns);
                    rows.flat_map(|row| row.iter().zip(&x[1]).map(|(x, g)| x * g))
                        .collect()
                },
            );
        }
    }

    #[test]
    fn factors_of_another_width_are_refused() {
        assert!(random([2, 3]).scale_columns(&random([2])).is_err());
        assert!(random([2, 3]).scale_columns(&random([1, 3])).is_err());
    }
}
