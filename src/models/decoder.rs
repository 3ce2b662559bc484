//! The one decoder: embedding, layers of attention and feed-forward around a residual stream, norm, head.

use std::sync::Arc;

use crate::autograd::replay;
use crate::error::Result;
use crate::format::Config;
use crate::models::head::{Head, Losses};
use crate::models::scaling::take_factors;
use crate::models::{DecoderSpec, read};
use crate::nn::{Embedding, Loader, RmsNorm, Rope, Span};
use crate::tensor::{Ctx, Grads, Segment, Tensor, checkpoint, run};

use layer::Layer;

/// A language model ready to run. Its parts are segments that the loader's placer has wrapped: activations of layers are
/// kept or replayed.
pub struct Decoder {
    spec: DecoderSpec,
    embedding: Arc<Start>,
    /// The embedding where it runs.
    start: Arc<dyn Segment>,
    layers: Vec<Arc<dyn Segment>>,
    /// The layers where they run, one or several in a unit.
    units: Vec<Span>,
    norm: RmsNorm,
    /// None when the head is the embedding table.
    head: Option<Arc<Head>>,
    /// The losses where they run.
    losses: Arc<dyn Segment>,
    /// Whether they compute logits again for their gradient.
    losses_replay: bool,
}

/// u32 ids [time] to the stream [time, width] before the first layer.
struct Start {
    embedding: Embedding,
    scale: f32,
}

impl Segment for Start {
    fn forward(&self, x: &[Tensor], ctx: &Ctx) -> Result<Vec<Tensor>> {
        let stream = self.embedding.forward(&x[0], ctx)?;
        Ok(vec![match self.scale == 1.0 {
            true => stream,
            false => stream.scale(self.scale)?,
        }])
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

impl Decoder {
    /// Builds the model that `config` describes from the weights of `loader`; refuses a checkpoint that has others too.
    pub fn load(config: &Config, loader: &Loader) -> Result<Decoder> {
        let (_, mut spec) = read(config)?;
        take_factors(config, &mut spec, loader)?;
        let ropes = spec
            .ropes
            .iter()
            .map(|rope| Ok(Arc::new(Rope::new(rope, spec.pairs)?)));
        let ropes: Vec<Arc<Rope>> = ropes.collect::<Result<_>>()?;
        let model = loader.at("model");
        let embedding = model.embedding("embed_tokens", spec.width)?;
        let vocab = embedding.table().shape()[0];
        let layer = |index: usize| -> Result<Span> {
            let rope = ropes[spec.layers[index].rope].clone();
            let place = model.at("layers").at(index);
            Ok(place.span(Arc::new(Layer::load(&place, &spec, index, rope)?)))
        };
        let layers: Vec<Span> = (0..spec.layers.len()).map(layer).collect::<Result<_>>()?;
        let norm = model.rms_norm("norm", spec.width, spec.norm)?;
        let head = match loader.has("lm_head.weight") && !spec.tied {
            true => {
                let linear = loader.linear("lm_head", vocab, spec.width)?;
                Some(Head::new(linear, spec.logit_cap, vocab))
            }
            false => {
                loader.skip("lm_head.weight");
                None
            }
        };
        loader.finish()?;
        let (losses, place) = match &head {
            None => {
                let table = embedding.table().clone();
                (
                    Losses::Plain(table, spec.logit_cap),
                    model.at("embed_tokens"),
                )
            }
            Some(head) => {
                let losses = match head.plain_weight() {
                    Some(weight) => Losses::Plain(weight.clone(), spec.logit_cap),
                    None => Losses::Learned(head.clone()),
                };
                (losses, loader.at("lm_head"))
            }
        };
        let losses_replay = matches!(losses, Losses::Learned(_));
        let scale = spec.embedding_scale;
        let embedding = Arc::new(Start { embedding, scale });
        let alone = |span: Span| loader.place(vec![span]).remove(0);
        Ok(Decoder {
            start: alone(model.at("embed_tokens").span(embedding.clone())).segment,
            layers: layers.iter().map(|span| span.segment.clone()).collect(),
            units: loader.place(layers),
            losses: alone(place.span(Arc::new(losses))).segment,
            losses_replay,
            spec,
            embedding,
            norm,
            head,
        })
    }

    pub fn spec(&self) -> &DecoderSpec {
        &self.spec
    }

    pub fn vocab(&self) -> usize {
        self.embedding.embedding.table().shape()[0]
    }

    /// u32 ids [time] to the normed stream [time, width].
    fn hidden(&self, ids: &Tensor, ctx: &Ctx) -> Result<Tensor> {
        let mut x = self
            .start
            .forward(std::slice::from_ref(ids), ctx)?
            .remove(0);
        for Span {
            segment, learns, ..
        } in &self.units
        {
            // Below the first layer that learns there is nothing to go back for.
            x = match *learns || x.tracked() {
                true => run(segment, &[x], ctx)?.remove(0),
                false => segment.forward(&[x], &ctx.without_recording())?.remove(0),
            };
        }
        self.norm.forward(&x)
    }

    /// The path of the first layer before the head whose output holds an infinity or something that is no number; none when
    /// all are finite.
    pub fn first_not_finite(&self, ids: &Tensor, ctx: &Ctx) -> Result<Option<String>> {
        let ctx = ctx.without_recording();
        let is_wrong = |x: &Tensor| Ok(x.values()?.iter().any(|value| !value.is_finite()));
        let mut x = self
            .embedding
            .forward(std::slice::from_ref(ids), &ctx)?
            .remove(0);
        if is_wrong(&x)? {
            return Ok(Some("model.embed_tokens".to_owned()));
        }
        for (index, layer) in self.layers.iter().enumerate() {
            x = layer.forward(&[x], &ctx)?.remove(0);
            if is_wrong(&x)? {
                return Ok(Some(format!("model.layers.{index}")));
            }
        }
        x = self.norm.forward(&x)?;
        if is_wrong(&x)? {
            return Ok(Some("model.norm".to_owned()));
        }
        Ok(None)
    }

    /// The loss of predicting `targets` (u32 [time], `IGNORED` for none) from `ids` (u32 [time]): nats per token, [time].
    pub fn losses(&self, ids: &Tensor, targets: &Tensor, ctx: &Ctx) -> Result<Tensor> {
        let x = [self.hidden(ids, ctx)?, targets.clone()];
        let losses = match self.losses_replay {
            true => checkpoint(&self.losses, &x, ctx)?,
            false => self.losses.forward(&x, ctx)?,
        };
        Ok(losses[0].clone())
    }

    /// Logits [time, vocab] of the tokens after `ids` (u32 [time]).
    pub fn logits(&self, ids: &Tensor, ctx: &Ctx) -> Result<Tensor> {
        self.project(&self.hidden(ids, ctx)?, ctx)
    }

    /// Logits [1, vocab] after the last of `ids` (u32 [time]).
    pub fn last_logits(&self, ids: &Tensor, ctx: &Ctx) -> Result<Tensor> {
        let hidden = self.hidden(ids, ctx)?;
        let width = self.spec.width;
        let last = hidden.span(hidden.shape().elements() - width, [1, width])?;
        self.project(&last, ctx)
    }

    fn project(&self, hidden: &Tensor, ctx: &Ctx) -> Result<Tensor> {
        if let Some(head) = &self.head {
            return head.logits(hidden, ctx);
        }
        let logits = hidden.linear(self.embedding.embedding.table())?;
        match self.spec.logit_cap {
            Some(cap) => logits.soft_cap(cap),
            None => Ok(logits),
        }
    }
}

mod layer;

#[cfg(test)]
mod tests;
