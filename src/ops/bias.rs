//! y = x + b, with b added to every row.

use crate::backend::cpu::for_rows;
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

#[derive(Debug)]
struct Bias;

impl Tensor {
    /// Adds `bias` [columns] to every row of self [.., columns].
    pub fn bias(&self, bias: &Tensor) -> Result<Tensor> {
        apply(Bias, &[self, bias])
    }
}

impl Op for Bias {
    fn name(&self) -> &'static str {
        "bias"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let (rows, bias) = (x[0].shape(), x[1].shape());
        if bias[..] != [rows.last()] {
            bail!(
                Internal,
                "bias: bias is {bias} but the last axis of x {rows} is {}",
                rows.last()
            );
        }
        Ok(rows.clone())
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (values, bias) = (x[0].values()?, x[1].values()?);
        for_rows(y, bias.len(), |row, y| {
            let x = &values[row * bias.len()..];
            for ((y, x), b) in y.iter_mut().zip(x).zip(bias) {
                *y = x + b;
            }
        });
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::NOTHING
    }

    fn vjp(
        &self,
        x: &[Tensor],
        wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let db = match wanted[1] {
            true => {
                let mut sum = vec![0.0; x[1].shape().last()];
                for row in dy.values()?.chunks(sum.len().max(1)) {
                    for (sum, dy) in sum.iter_mut().zip(row) {
                        *sum += dy;
                    }
                }
                Some(Tensor::new(sum, x[1].shape().clone())?)
            }
            false => None,
        };
        Ok(vec![wanted[0].then(|| dy.clone()), db])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{check, values};

    #[test]
    fn a_bias_and_its_gradients_follow_the_formula() {
        for (rows, columns) in [(1, 1), (3, 7), (33, 2), (2, 257)] {
            check(
                &[values([rows, columns]), values([columns])],
                |x| x[0].bias(&x[1]),
                |x| {
                    let rows = x[0].chunks(columns);
                    rows.flat_map(|row| row.iter().zip(&x[1]).map(|(x, b)| x + b))
                        .collect()
                },
            );
        }
    }

    #[test]
    fn a_bias_of_another_width_is_refused() {
        let x = Tensor::new(vec![0.0; 6], [2, 3]).unwrap();
        for width in [1, 2, 6] {
            assert!(
                x.bias(&Tensor::new(vec![0.0; width], [width]).unwrap())
                    .is_err()
            );
        }
    }
}
