//! Causal self-attention with grouped key/value heads, rotary positions, and optional norms on queries and keys.

use std::sync::Arc;

use crate::error::Result;
use crate::nn::{Linear, Loader, NormSpec, RmsNorm, Rope};
use crate::ops::Attention;
use crate::tensor::{Ctx, Tensor};

#[derive(Debug, Clone, Copy)]
pub struct AttentionSpec {
    pub heads: usize,
    pub kv_heads: usize,
    pub dim: usize,
    /// Norms on each head of q and k before rope (Qwen3, Gemma 3).
    pub head_norm: Option<NormSpec>,
    /// q, k and v are one projection in this order (Phi-3).
    pub fused: bool,
    pub attention: Attention,
}

pub struct SelfAttention {
    path: String,
    input: Input,
    output: Linear,
    head_norms: Option<(RmsNorm, RmsNorm)>,
    rope: Arc<Rope>,
    spec: AttentionSpec,
}

enum Input {
    Split { q: Linear, k: Linear, v: Linear },
    Fused(Linear),
}

impl SelfAttention {
    /// `width`: channels of the stream.
    pub fn load(
        loader: &Loader,
        width: usize,
        spec: AttentionSpec,
        rope: Arc<Rope>,
    ) -> Result<SelfAttention> {
        let (queries, keys) = (spec.heads * spec.dim, spec.kv_heads * spec.dim);
        let input = match spec.fused {
            true => Input::Fused(loader.linear("qkv_proj", queries + 2 * keys, width)?),
            false => Input::Split {
                q: loader.linear("q_proj", queries, width)?,
                k: loader.linear("k_proj", keys, width)?,
                v: loader.linear("v_proj", keys, width)?,
            },
        };
        let head_norms = match spec.head_norm {
            Some(norm) => Some((
                loader.rms_norm("q_norm", spec.dim, norm)?,
                loader.rms_norm("k_norm", spec.dim, norm)?,
            )),
            None => None,
        };
        Ok(SelfAttention {
            path: loader.path().to_owned(),
            input,
            output: loader.linear("o_proj", width, queries)?,
            head_norms,
            rope,
            spec,
        })
    }

    /// [time, width] to [time, width].
    pub fn forward(&self, x: &Tensor, ctx: &Ctx) -> Result<Tensor> {
        let AttentionSpec {
            heads,
            kv_heads,
            dim,
            ..
        } = self.spec;
        let time = x.shape()[0];
        let (queries, keys) = (heads * dim, kv_heads * dim);
        let by_heads = |x: Tensor, heads| x.reshape([time, heads, dim]);
        let (mut q, mut k, mut v) = match &self.input {
            Input::Split { q, k, v } => {
                let (q, k, v) = (q.forward(x, ctx)?, k.forward(x, ctx)?, v.forward(x, ctx)?);
                (
                    by_heads(q, heads)?,
                    by_heads(k, kv_heads)?,
                    by_heads(v, kv_heads)?,
                )
            }
            Input::Fused(all) => {
                let all = all.forward(x, ctx)?;
                (
                    by_heads(all.narrow(0, queries)?, heads)?,
                    by_heads(all.narrow(queries, keys)?, kv_heads)?,
                    by_heads(all.narrow(queries + keys, keys)?, kv_heads)?,
                )
            }
        };
        if let Some((q_norm, k_norm)) = &self.head_norms {
            q = q_norm.forward(&q)?;
            k = k_norm.forward(&k)?;
        }
        q = self.rope.forward(&q, &ctx.rows)?;
        k = self.rope.forward(&k, &ctx.rows)?;
        if let Some(cache) = &ctx.cache {
            (k, v) = cache.append(&self.path, &k, &v)?;
        }
        let y = q.attention(&k, &v, &ctx.rows.starts, self.spec.attention)?;
        self.output.forward(&y.reshape([time, queries])?, ctx)
    }
}
