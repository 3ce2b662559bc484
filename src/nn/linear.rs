//! y = x·Wᵀ + b, plus scale·B·(A·x) when the layer learns: the only place that adds an adapter.

use std::sync::Arc;

use crate::error::Result;
use crate::lora::Adapter;
use crate::quant::Weight;
use crate::tensor::{Ctx, Mode, Random, Tensor};

pub struct Linear {
    path: String,
    weight: Weight,
    bias: Option<Tensor>,
    adapter: Option<Arc<Adapter>>,
}

impl Linear {
    /// `weight` [outputs, inputs]; `bias` [outputs]; `adapter` holds the pair of `path`.
    pub fn new(
        path: String,
        weight: Weight,
        bias: Option<Tensor>,
        adapter: Option<Arc<Adapter>>,
    ) -> Linear {
        Linear {
            path,
            weight,
            bias,
            adapter,
        }
    }

    /// The frozen weight, when nothing is added to its product.
    pub fn plain_weight(&self) -> Option<&Weight> {
        match (&self.bias, &self.adapter) {
            (None, None) => Some(&self.weight),
            _ => None,
        }
    }

    /// [time, inputs] to [time, outputs].
    pub fn forward(&self, x: &Tensor, ctx: &Ctx) -> Result<Tensor> {
        let mut y = x.linear(&self.weight)?;
        if let Some(bias) = &self.bias {
            y = y.bias(bias)?;
        }
        let Some(adapter) = &self.adapter else {
            return Ok(y);
        };
        let config = adapter.config();
        let (a, b) = adapter.pair(&self.path, ctx.recording)?;
        let low = match ctx.mode {
            Mode::Train if config.dropout > 0.0 => {
                let stream = Random::new(ctx.seed).fork(ctx.step).named(&self.path);
                x.dropout(config.dropout, stream, &ctx.rows)?.matmul_t(&a)?
            }
            _ => x.matmul_t(&a)?,
        };
        y.add_scaled(&low.matmul_t(&b)?, config.scale())
    }
}
