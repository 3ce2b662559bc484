//! y = x·mask / (1 − rate), mask 0 with probability `rate`. Srivastava et al. 2014, JMLR 15.
//! The mask is a function of (stream, sample, position, channel), so that a replay draws it again.

use crate::backend::cpu::for_rows;
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Random, Reads, Rows, Tensor, apply};

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
        if !(0.0..1.0).contains(&self.rate) {
            bail!(
                Usage,
                "dropout: the rate is {}, it must be at least 0 and below 1",
                self.rate
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
                *y = match stream.uniform(channel as u64) >= self.rate {
                    true => values[row * width + channel] * keep,
                    false => 0.0,
                };
            }
        });
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::inputs(&[1, 2])
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::autograd::replay;
    use crate::ops::check::{gradients, random};
    use crate::tensor::{Ctx, Grads, Segment, checkpoint};

    const RATE: f32 = 0.3;

    fn ones(time: usize, width: usize) -> Tensor {
        Tensor::leaf(vec![1.0; time * width], [time, width]).unwrap()
    }

    fn dropped(stream: Random, samples: &[(u32, usize)], width: usize) -> Vec<f32> {
        let rows = Rows::of_samples(samples).unwrap();
        let x = ones(rows.samples.shape()[0], width);
        let y = x.dropout(RATE, stream, &rows).unwrap();
        y.values().unwrap().to_vec()
    }

    #[test]
    fn kept_values_grow_so_that_the_mean_stays() {
        let y = dropped(Random::new(1), &[(0, 257)], 257);
        let kept = y.iter().filter(|&&y| y != 0.0).count() as f32 / y.len() as f32;
        // The share kept has a standard deviation of 0.0018.
        assert!((kept - (1.0 - RATE)).abs() < 0.01, "kept {kept}");
        assert!(y.iter().all(|&y| y == 0.0 || (y - 1.0 / 0.7).abs() < 1e-6));
    }

    #[test]
    fn the_gradient_passes_through_the_same_mask() {
        let rows = Rows::of_samples(&[(3, 7)]).unwrap();
        let x = ones(7, 33);
        let y = x.dropout(RATE, Random::new(2), &rows).unwrap();
        let grads = gradients(&y, &[1.0; 7 * 33]);
        assert_eq!(
            grads.get(&x).unwrap().values().unwrap(),
            y.values().unwrap()
        );
    }

    #[test]
    fn a_token_keeps_its_mask_wherever_its_sample_stands() {
        let stream = Random::new(3).fork(1);
        let (alone, packed) = (
            dropped(stream, &[(5, 7)], 33),
            dropped(stream, &[(4, 2), (5, 7)], 33),
        );
        assert_eq!(alone, packed[2 * 33..]);
        assert_ne!(alone, dropped(stream, &[(6, 7)], 33));
        assert_ne!(alone, dropped(Random::new(3).fork(2), &[(5, 7)], 33));
        assert_ne!(alone[..33], alone[33..66]);
    }

    #[test]
    fn a_rate_of_zero_changes_nothing_and_one_is_refused() {
        let rows = Rows::of_samples(&[(0, 3)]).unwrap();
        let x = random([3, 7]);
        let y = x.dropout(0.0, Random::new(1), &rows).unwrap();
        assert_eq!(y.values().unwrap(), x.values().unwrap());
        for rate in [1.0, -0.1, f32::NAN] {
            assert!(x.dropout(rate, Random::new(1), &rows).is_err(), "{rate}");
        }
        assert!(random([4, 7]).dropout(0.5, Random::new(1), &rows).is_err());
    }

    struct Layer;

    impl Segment for Layer {
        fn forward(&self, x: &[Tensor], ctx: &Ctx) -> Result<Vec<Tensor>> {
            let stream = Random::new(ctx.seed).fork(ctx.step);
            Ok(vec![x[0].dropout(RATE, stream, &ctx.rows)?])
        }

        fn backward(
            &self,
            x: &[Tensor],
            dy: &[Option<Tensor>],
            ctx: &Ctx,
            grads: &mut Grads,
        ) -> Result<Vec<Option<Tensor>>> {
            replay(self, x, dy, ctx, grads)
        }
    }

    #[test]
    fn a_replayed_segment_draws_the_same_mask() {
        let ctx = Ctx::train(Rows::of_samples(&[(0, 7)]).unwrap(), 4, 42);
        let segment: Arc<dyn Segment> = Arc::new(Layer);
        let x = ones(7, 33);
        let y = checkpoint(&segment, std::slice::from_ref(&x), &ctx)
            .unwrap()
            .remove(0);
        let grads = gradients(&y, &[1.0; 7 * 33]);
        assert_eq!(
            grads.get(&x).unwrap().values().unwrap(),
            y.values().unwrap()
        );
    }
}
