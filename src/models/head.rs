//! A head with a weight of its own: [time, width] to the logits [time, vocab].
//!
//! Where an adapter or a bias adds to the product, the losses need the logits themselves. They then exist for a block of
//! tokens at a time, in both directions: the backward computes a block again, as a checkpointed layer does.

use std::sync::Arc;

use crate::autograd::backward;
use crate::backend::Buffer;
use crate::bail;
use crate::error::Result;
use crate::nn::Linear;
use crate::quant::Weight;
use crate::tensor::{Ctx, Grads, Segment, Tensor, checkpoint};

/// Logits in a block: 32 MiB, of which a backward holds about five.
pub(crate) const BLOCK_VALUES: usize = 8 * 1024 * 1024;

pub(super) struct Head {
    linear: Linear,
    soft_cap: Option<f32>,
    /// Tokens in a block.
    block: usize,
}

impl Head {
    pub fn new(linear: Linear, soft_cap: Option<f32>, vocab: usize) -> Arc<Head> {
        Arc::new(Head {
            linear,
            soft_cap,
            block: (BLOCK_VALUES / vocab.max(1)).max(1),
        })
    }

    /// The frozen weight, when nothing is added to its product.
    pub fn plain_weight(&self) -> Option<&Weight> {
        self.linear.plain_weight()
    }

    pub fn logits(&self, hidden: &Tensor, ctx: &Ctx) -> Result<Tensor> {
        let logits = self.linear.forward(hidden, ctx)?;
        match self.soft_cap {
            Some(cap) => logits.soft_cap(cap),
            None => Ok(logits),
        }
    }

    /// The losses of `targets` (u32 [time]) in nats, [time].
    pub fn losses(
        self: &Arc<Self>,
        hidden: &Tensor,
        targets: &Tensor,
        ctx: &Ctx,
    ) -> Result<Tensor> {
        let segment: Arc<dyn Segment> = self.clone();
        let losses = checkpoint(&segment, &[hidden.clone(), targets.clone()], ctx)?;
        Ok(losses[0].clone())
    }

    /// The block of tokens from `first` on: hidden [count, width], targets [count], and the circumstances of its rows.
    fn cut(&self, x: &[Tensor], ctx: &Ctx, first: usize) -> Result<(Tensor, Tensor, Ctx)> {
        let (time, width) = (x[0].shape().rows(), x[0].shape().last());
        let count = self.block.min(time - first);
        let hidden = x[0].span(first * width, [count, width])?;
        let targets = x[1].span(first, [count])?;
        let rows = ctx.rows.span(first, count)?;
        let ctx = Ctx {
            rows,
            ..ctx.clone()
        };
        Ok((hidden, targets, ctx))
    }
}

impl Segment for Head {
    /// Hidden [time, width] and targets u32 [time] to losses [time].
    fn forward(&self, x: &[Tensor], ctx: &Ctx) -> Result<Vec<Tensor>> {
        let time = x[0].shape().rows();
        if x[1].shape()[..] != [time] {
            bail!(Internal, "head: {time} tokens and targets {}", x[1].shape());
        }
        let mut losses = Vec::with_capacity(time);
        for first in (0..time).step_by(self.block) {
            let (hidden, targets, ctx) = self.cut(x, ctx, first)?;
            let block = self.logits(&hidden, &ctx)?.cross_entropy(&targets)?;
            losses.extend_from_slice(block.values()?);
        }
        Ok(vec![Tensor::new(losses, [time])?])
    }

    fn backward(
        &self,
        x: &[Tensor],
        dy: &[Option<Tensor>],
        ctx: &Ctx,
        grads: &mut Grads,
    ) -> Result<Vec<Option<Tensor>>> {
        let Some(dy) = &dy[0] else {
            return Ok(vec![None, None]);
        };
        let (time, width) = (x[0].shape().rows(), x[0].shape().last());
        let mut dx = Buffer::zeros(time * width);
        for first in (0..time).step_by(self.block) {
            let (hidden, targets, ctx) = self.cut(x, ctx, first)?;
            let hidden = hidden.tracked_leaf();
            let losses = self.logits(&hidden, &ctx)?.cross_entropy(&targets)?;
            let dy = dy.span(first, losses.shape().clone())?;
            backward(losses, dy, grads)?;
            if let Some(gradient) = grads.take(&hidden) {
                let gradient = gradient.values()?;
                dx[first * width..][..gradient.len()].copy_from_slice(gradient);
            }
        }
        let dx = Tensor::of(dx, x[0].shape().clone())?;
        Ok(vec![x[0].tracked().then_some(dx), None])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lora::{Adapter, LoraConfig, Targets};
    use crate::ops::IGNORED;
    use crate::ops::check::{gradients, random, weight};
    use crate::quant::Format;
    use crate::tensor::Rows;

    /// Losses, and gradients of the input and of every parameter.
    fn computed(block: usize) -> Vec<Vec<f32>> {
        let (time, width, vocab) = (7, 32, 33);
        let config = LoraConfig {
            rank: 3,
            dropout: 0.3,
            dora: true,
            targets: Targets::parse("lm_head").unwrap(),
            ..LoraConfig::default()
        };
        let adapter = Adapter::new(config);
        let weight = weight(Format::Q8_0, vocab, width);
        assert!(adapter.attach("lm_head", &weight).unwrap());
        let linear = Linear::new("lm_head".into(), weight, None, Some(adapter.clone()));
        let head = Arc::new(Head {
            linear,
            soft_cap: Some(3.0),
            block,
        });
        let hidden = random([time, width]).tracked_leaf();
        let targets = Tensor::of_u32(vec![0, 32, IGNORED, 5, 5, IGNORED, 7], [time]).unwrap();
        let ctx = Ctx::train(Rows::of_samples(&[(4, 3), (9, 4)]).unwrap(), 2, 5);
        let losses = head.losses(&hidden, &targets, &ctx).unwrap();
        let grads = gradients(&losses, &[1.0, 0.5, 3.0, -1.0, 2.0, 1.0, 0.25]);
        let mut all = vec![losses.values().unwrap().to_vec()];
        all.push(grads.get(&hidden).unwrap().values().unwrap().to_vec());
        adapter
            .each_parameter(|parameter| {
                all.push(grads.get(parameter.value).unwrap().values()?.to_vec());
                Ok(())
            })
            .unwrap();
        all
    }

    #[test]
    fn blocks_of_tokens_give_what_all_at_once_give() {
        let whole = computed(100);
        assert_eq!(whole.len(), 5);
        for block in [1, 3, 7] {
            for (one, other) in whole.iter().zip(computed(block)) {
                let expected: Vec<f64> = one.iter().map(|&x| x.into()).collect();
                crate::ops::check::close("blocks", &other, &expected);
            }
        }
    }
}
