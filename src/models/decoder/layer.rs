//! A decoder layer: attention and feed-forward, each behind a norm, added to the residual stream.

use std::sync::Arc;

use crate::autograd::replay;
use crate::error::Result;
use crate::models::DecoderSpec;
use crate::nn::{AttentionSpec, Loader, Mlp, MlpSpec, RmsNorm, Rope, SelfAttention};
use crate::ops::Attention;
use crate::tensor::{Ctx, Grads, Segment, Tensor};

/// [time, width] to [time, width].
pub(super) struct Layer {
    attention_norm: RmsNorm,
    attention: SelfAttention,
    mlp_norm: RmsNorm,
    mlp: Mlp,
    /// Norms of what attention and feed-forward add to the stream.
    added_norms: Option<(RmsNorm, RmsNorm)>,
}

impl Layer {
    pub fn load(
        loader: &Loader,
        spec: &DecoderSpec,
        index: usize,
        rope: Arc<Rope>,
    ) -> Result<Layer> {
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
                precision: loader.precision().of_activations(),
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
