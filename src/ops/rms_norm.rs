//! y = x / rms(x) · w along the last axis, rms(x) = √(mean(x²) + eps). Zhang and Sennrich 2019, arXiv:1910.07467.

use crate::backend::Buffer;
use crate::backend::cpu::{dot, for_rows, vectorised};
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

#[derive(Debug)]
struct RmsNorm {
    eps: f32,
}

impl Tensor {
    /// Scales every row of self [.., width] to a root mean square of 1, then by `weight` [width].
    pub fn rms_norm(&self, weight: &Tensor, eps: f32) -> Result<Tensor> {
        apply(RmsNorm { eps }, &[self, weight])
    }
}

/// 1 / rms of a row.
#[inline(always)]
fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    1.0 / (dot(x, x) / x.len() as f32 + eps).sqrt()
}

vectorised! {
    fn forward(eps: f32, x: &[f32], weight: &[f32], y: &mut [f32]) {
        let r = inverse_rms(x, eps);
        for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
            *y = x * r * w;
        }
    }
}

vectorised! {
    fn backward(eps: f32, x: &[f32], weight: &[f32], dy: &[f32], dx: &mut [f32]) {
        let r = inverse_rms(x, eps);
        for ((g, dy), w) in dx.iter_mut().zip(dy).zip(weight) {
            *g = dy * w;
        }
        let pull = r * r * dot(dx, x) / x.len() as f32;
        for (dx, x) in dx.iter_mut().zip(x) {
            *dx = r * (*dx - x * pull);
        }
    }
}

impl Op for RmsNorm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let (rows, weight) = (x[0].shape(), x[1].shape());
        if weight[..] != [rows.last()] {
            bail!(
                Internal,
                "rms_norm: weight is {weight} but the last axis of x {rows} is {}",
                rows.last()
            );
        }
        Ok(rows.clone())
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (values, weight) = (x[0].values()?, x[1].values()?);
        let width = weight.len();
        for_rows(y, width, |row, y| {
            let x = &values[row * width..(row + 1) * width];
            forward(self.eps, x, weight, y);
        });
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::inputs(&[0, 1])
    }

    fn again(&self) -> bool {
        true
    }

    /// With r = 1/rms(x) and g = dy·w:  dx = r·(g − x·r²·mean(g·x)),  dw = Σ_rows dy·x·r.
    fn vjp(
        &self,
        x: &[Tensor],
        wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let (values, weight, dy) = (x[0].values()?, x[1].values()?, dy.values()?);
        let width = weight.len();
        let mut dx = Buffer::stale(if wanted[0] { values.len() } else { 0 });
        for_rows(&mut dx, width, |row, dx| {
            let x = &values[row * width..(row + 1) * width];
            let dy = &dy[row * width..(row + 1) * width];
            backward(self.eps, x, weight, dy, dx);
        });
        let mut dw = vec![0.0; if wanted[1] { width } else { 0 }];
        if wanted[1] {
            for (x, dy) in values.chunks(width).zip(dy.chunks(width)) {
                let r = inverse_rms(x, self.eps);
                for ((dw, dy), x) in dw.iter_mut().zip(dy).zip(x) {
                    *dw += dy * x * r;
                }
            }
        }
        Ok(vec![
            wanted[0]
                .then(|| Tensor::of(dx, x[0].shape().clone()))
                .transpose()?,
            wanted[1]
                .then(|| Tensor::new(dw, x[1].shape().clone()))
                .transpose()?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{check, values};

    #[test]
    fn rms_norm_and_its_gradients_follow_the_formula() {
        for (rows, width) in [(1, 1), (3, 7), (2, 33), (5, 257)] {
            check(
                &[values([rows, width]), values([width])],
                |x| x[0].rms_norm(&x[1], 1e-5),
                |x| {
                    let norm = |row: &[f64]| {
                        let mean = row.iter().map(|x| x * x).sum::<f64>() / width as f64;
                        1.0 / (mean + 1e-5).sqrt()
                    };
                    let rows = x[0].chunks(width);
                    rows.flat_map(|row| row.iter().zip(&x[1]).map(move |(v, w)| v * norm(row) * w))
                        .collect()
                },
            );
        }
    }
}
