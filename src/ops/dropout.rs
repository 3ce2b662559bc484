//! y = x·mask / (1 − rate), mask 0 with probability `rate`. Srivastava et al. 2014, JMLR 15.
//! The mask is a function of (stream, sample, position, channel), so that a replay draws it again.

use crate::backend::cpu::for_rows;
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Random, Rows, Tensor, apply};

#[derive(Debug, Clone, Copy)]
struct Dropout {
    rate: f32,
    stream: Random,
}

impl Tensor {
    /// Drops values of self [time, width] with probability `rate` (0 ≤ rate < 1); `stream` is that of the step and the
    /// layer, `rows` says which token of which sample each row is.
    pub fn dropout(&self, rate: f32, stream: Random, rows: &Rows) -> Result<Tensor> {
        apply(
            Dropout { rate, stream },
            &[self, &rows.samples, &rows.positions],
        )
    }
}

impl Op for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let (rows, samples) = (x[0].shape(), x[1].shape());
        if rows.len() != 2 || samples[..] != rows[..1] || x[2].shape() != samples {
            bail!(
                Internal,
                "dropout: x {rows} must be [time, width], samples {samples} [time]"
            );
        }
        Ok(rows.clone())
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (values, samples, positions) = (x[0].values()?, x[1].ids()?, x[2].ids()?);
        let width = x[0].shape().last();
        let keep = 1.0 / (1.0 - self.rate);
        for_rows(y, width, |row, y| {
            let stream = self
                .stream
                .fork(samples[row].into())
                .fork(positions[row].into());
            for (channel, y) in y.iter_mut().enumerate() {
                if stream.uniform(channel as u64) >= self.rate {
                    *y = values[row * width + channel] * keep;
                }
            }
        });
        Ok(None)
    }

    fn vjp(
        &self,
        x: &[Tensor],
        _wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(apply(*self, &[dy, &x[1], &x[2]])?), None, None])
    }
}
