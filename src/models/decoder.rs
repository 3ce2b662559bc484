//! The one decoder: embedding, layers of attention and feed-forward around a residual stream, norm, head.

use std::sync::Arc;

use crate::autograd::replay;
use crate::error::Result;
use crate::format::Config;
use crate::models::head::Head;
use crate::models::scaling::take_factors;
use crate::models::{DecoderSpec, read};
use crate::nn::{AttentionSpec, Embedding, Loader, Mlp, MlpSpec, RmsNorm, Rope, SelfAttention};
use crate::ops::Attention;
use crate::tensor::{Ctx, Grads, Segment, Tensor, run};

/// A language model ready to run. Its layers are segments, whose activations are kept or replayed.
pub struct Decoder {
    spec: DecoderSpec,
    embedding: Embedding,
    layers: Vec<Place>,
    norm: RmsNorm,
    /// None when the head is the embedding table.
    head: Option<Arc<Head>>,
}

/// A decoder layer.
struct Place {
    segment: Arc<dyn Segment>,
    /// Whether an adapter has a part in it.
    learns: bool,
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
        let layer = |index: usize| -> Result<Place> {
            let rope = ropes[spec.layers[index].rope].clone();
            let place = model.at("layers").at(index);
            Ok(Place {
                segment: Arc::new(Layer::load(&place, &spec, index, rope)?),
                learns: place.learns(),
            })
        };
        let layers = (0..spec.layers.len()).map(layer).collect::<Result<_>>()?;
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
        Ok(Decoder {
            spec,
            embedding,
            layers,
            norm,
            head,
        })
    }

    pub fn spec(&self) -> &DecoderSpec {
        &self.spec
    }

    pub fn vocab(&self) -> usize {
        self.embedding.table().shape()[0]
    }

    /// u32 ids [time] to the normed stream [time, width].
    fn hidden(&self, ids: &Tensor, ctx: &Ctx) -> Result<Tensor> {
        let mut x = self.embedding.forward(ids, ctx)?;
        if self.spec.embedding_scale != 1.0 {
            x = x.scale(self.spec.embedding_scale)?;
        }
        for Place { segment, learns } in &self.layers {
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
        let mut x = self.embedding.forward(ids, &ctx)?;
        if is_wrong(&x)? {
            return Ok(Some("model.embed_tokens".to_owned()));
        }
        if self.spec.embedding_scale != 1.0 {
            x = x.scale(self.spec.embedding_scale)?;
        }
        for (index, layer) in self.layers.iter().enumerate() {
            x = layer.segment.forward(&[x], &ctx)?.remove(0);
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
        let hidden = self.hidden(ids, ctx)?;
        let plain = match &self.head {
            None => self.embedding.table(),
            Some(head) => match head.plain_weight() {
                Some(weight) => weight,
                None => return head.losses(&hidden, targets, ctx),
            },
        };
        hidden.linear_cross_entropy(plain, targets, self.spec.logit_cap)
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
        let logits = hidden.linear(self.embedding.table())?;
        match self.spec.logit_cap {
            Some(cap) => logits.soft_cap(cap),
            None => Ok(logits),
        }
    }
}

struct Layer {
    attention_norm: RmsNorm,
    attention: SelfAttention,
    mlp_norm: RmsNorm,
    mlp: Mlp,
    /// Norms of what attention and feed-forward add to the stream.
    added_norms: Option<(RmsNorm, RmsNorm)>,
}

impl Layer {
    fn load(loader: &Loader, spec: &DecoderSpec, index: usize, rope: Arc<Rope>) -> Result<Layer> {
        let attention = AttentionSpec {
            heads: spec.heads,
            kv_heads: spec.kv_heads,
            dim: spec.head_dim,
            head_norm: spec.head_norm.then_some(spec.norm),
            fused: spec.fused,
            attention: Attention {
                scale: spec.attention_scale,
                window: spec.layers[index].window,
                soft_cap: spec.attention_cap,
            },
        };
        let mlp = MlpSpec {
            hidden: spec.mlp_hidden,
            activation: spec.activation,
            fused: spec.fused,
        };
        let norm = |name| loader.rms_norm(name, spec.width, spec.norm);
        let (mlp_norm, added_norms) = match spec.sandwich_norms {
            true => (
                norm("pre_feedforward_layernorm")?,
                Some((
                    norm("post_attention_layernorm")?,
                    norm("post_feedforward_layernorm")?,
                )),
            ),
            false => (norm("post_attention_layernorm")?, None),
        };
        Ok(Layer {
            attention_norm: norm("input_layernorm")?,
            attention: SelfAttention::load(&loader.at("self_attn"), spec.width, attention, rope)?,
            mlp_norm,
            mlp: Mlp::load(&loader.at("mlp"), spec.width, mlp)?,
            added_norms,
        })
    }
}

impl Segment for Layer {
    /// [time, width] to [time, width].
    fn forward(&self, x: &[Tensor], ctx: &Ctx) -> Result<Vec<Tensor>> {
        let x = &x[0];
        let mut added = self
            .attention
            .forward(&self.attention_norm.forward(x)?, ctx)?;
        if let Some((norm, _)) = &self.added_norms {
            added = norm.forward(&added)?;
        }
        let x = x.add(&added)?;
        let mut added = self.mlp.forward(&self.mlp_norm.forward(&x)?, ctx)?;
        if let Some((_, norm)) = &self.added_norms {
            added = norm.forward(&added)?;
        }
        Ok(vec![x.add(&added)?])
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

#[cfg(test)]
mod tests;
