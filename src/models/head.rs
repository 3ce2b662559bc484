//! From the normed stream [time, width] to logits [time, vocab] and losses [time].
//!
//! With a weight that nothing is added to, the losses never need the logits of the whole vocabulary. Where an adapter or a bias adds to the product, the losses need the logits themselves. They then exist for a block of
//! tokens at a time, in both directions: the backward computes a block again, as a checkpointed layer does.

use std::sync::Arc;

use crate::autograd::{backward, replay};
use crate::backend::Buffer;
use crate::bail;
use crate::error::Result;
use crate::nn::Linear;
use crate::quant::Weight;
use crate::tensor::{Ctx, Grads, Segment, Tensor};

/// Logits in a block: 32 MiB, of which a backward holds about five.
const BLOCK_VALUES: usize = 8 * 1024 * 1024;

/// Tokens in a block of so many, whose logits all exist at once: with a slice of the vocabulary, as many logits as those of
/// all tokens for that slice.
pub(crate) fn block_tokens(tokens: usize, vocab: usize, slice: Option<usize>) -> usize {
    let values = slice.map_or(BLOCK_VALUES, |rows| rows.saturating_mul(tokens));
    (values / vocab.max(1)).clamp(1, tokens.max(1))
}

/// The losses of a stream, as a segment.
pub(super) enum Losses {
    /// By a weight to which nothing is added, such as the embedding table; the backward does not read it.
    Plain(Weight, Option<f32>),
    Learned(Arc<Head>),
}

impl Segment for Losses {
    /// Hidden [time, width] and targets u32 [time] to losses [time] in nats.
    fn forward(&self, x: &[Tensor], ctx: &Ctx) -> Result<Vec<Tensor>> {
        match self {
            Losses::Plain(weight, soft_cap) => {
                let (soft_cap, slice) = (*soft_cap, ctx.vocab_slice);
                let losses = x[0].linear_cross_entropy(weight, &x[1], soft_cap, slice)?;
                Ok(vec![losses])
            }
            Losses::Learned(head) => head.forward(x, ctx),
        }
    }

    fn backward(
        &self,
        x: &[Tensor],
        dy: &[Option<Tensor>],
        ctx: &Ctx,
        grads: &mut Grads,
    ) -> Result<Vec<Option<Tensor>>> {
        match self {
            Losses::Plain(..) => replay(self, x, dy, ctx, grads),
            Losses::Learned(head) => head.backward(x, dy, ctx, grads),
        }
    }
}

pub(super) struct Head {
    linear: Linear,
    soft_cap: Option<f32>,
    vocab: usize,
}

impl Head {
    pub fn new(linear: Linear, soft_cap: Option<f32>, vocab: usize) -> Arc<Head> {
        Arc::new(Head {
            linear,
            soft_cap,
            vocab,
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

    fn block(&self, x: &[Tensor], ctx: &Ctx) -> usize {
        block_tokens(x[0].shape().rows(), self.vocab, ctx.vocab_slice)
    }

    /// The block of tokens from `first` on: hidden [count, width], targets [count], and the circumstances of its rows.
    fn cut(&self, x: &[Tensor], ctx: &Ctx, first: usize) -> Result<(Tensor, Tensor, Ctx)> {
        let (time, width) = (x[0].shape().rows(), x[0].shape().last());
        let count = self.block(x, ctx).min(time - first);
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
        for first in (0..time).step_by(self.block(x, ctx)) {
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
        for first in (0..time).step_by(self.block(x, ctx)) {
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
    use crate::tensor::{Rows, checkpoint};

    /// Losses, and gradients of the input and of every parameter.
    fn computed(slice: Option<usize>) -> Vec<Vec<f32>> {
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
        let head = Losses::Learned(Head::new(linear, Some(3.0), vocab));
        let head: Arc<dyn Segment> = Arc::new(head);
        let hidden = random([time, width]).tracked_leaf();
        let targets = Tensor::of_u32(vec![0, 32, IGNORED, 5, 5, IGNORED, 7], [time]).unwrap();
        let ctx = Ctx::train(Rows::of_samples(&[(4, 3), (9, 4)]).unwrap(), 2, 5);
        let ctx = ctx.with_vocab_slice(slice);
        let losses = checkpoint(&head, &[hidden.clone(), targets], &ctx).unwrap();
        let losses = losses[0].clone();
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
        let whole = computed(None);
        assert_eq!(whole.len(), 5);
        // Blocks of 1, 1, 3 and all 7 tokens.
        for slice in [1, 9, 15, 40] {
            for (one, other) in whole.iter().zip(computed(Some(slice))) {
                let expected: Vec<f64> = one.iter().map(|&x| x.into()).collect();
                crate::ops::check::close("blocks", &other, &expected);
            }
        }
    }
}
