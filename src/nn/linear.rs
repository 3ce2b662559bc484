//! y = x·Wᵀ + b, plus what an adapter adds when the layer learns: the only place that does so for linear layers.
//!
//! LoRA adds s·B·(A·x). DoRA multiplies W·x + s·B·(A·x) by g = m / ‖W + s·B·A‖, output by output, before the bias.

use std::sync::Arc;

use crate::error::Result;
use crate::lora::{Adapter, DoraLengths, Factors};
use crate::quant::Weight;
use crate::tensor::{Ctx, Mode, Random, Tensor};

pub struct Linear {
    path: String,
    weight: Weight,
    bias: Option<Tensor>,
    adapter: Option<Arc<Adapter>>,
}

impl Linear {
    /// `weight` [outputs, inputs]; `bias` [outputs]; `adapter` holds the factors of `path`.
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
        let y = x.linear(&self.weight)?;
        let Some(adapter) = &self.adapter else {
            return self.add_bias(y);
        };
        let rate = adapter.config().dropout;
        let dropped = match ctx.mode {
            Mode::Train if rate > 0.0 => {
                let stream = Random::new(ctx.seed).fork(ctx.step).named(&self.path);
                Some(x.dropout(rate, stream, &ctx.rows)?)
            }
            _ => None,
        };
        let Factors { a, b, scale, dora } =
            adapter.factors(&self.path, &self.weight, ctx.recording)?;
        let mut low = dropped.as_ref().unwrap_or(x).matmul_t(&a)?;
        if scale != 1.0 {
            low = low.scale(scale)?;
        }
        match dora {
            None => self.add_bias(y)?.add_matmul_t(&low, &b),
            Some(dora) => self.with_lengths(y, &low.matmul_t(&b)?, dropped.as_ref(), &dora),
        }
    }

    /// DoRA's outputs. Without dropout g·(y + low) + b.
    ///
    /// With dropout as PEFT 0.21 has it, y + (g − 1)·z + g·low + b: what g adds comes from the dropped input, z = W·dropped.
    fn with_lengths(
        &self,
        y: Tensor,
        low: &Tensor,
        dropped: Option<&Tensor>,
        dora: &DoraLengths,
    ) -> Result<Tensor> {
        let outputs = y.shape().last();
        let factors = dora.magnitude.reshape([1, outputs])?;
        let factors = factors.scale_columns(&dora.inverse_lengths)?;
        let factors = factors.reshape([outputs])?;
        let y = match dropped {
            None => y.add(low)?.scale_columns(&factors)?,
            Some(dropped) => {
                let z = dropped.linear(&self.weight)?;
                let scaled = z.add(low)?.scale_columns(&factors)?;
                y.add(&scaled)?.add_scaled(&z, -1.0)?
            }
        };
        self.add_bias(y)
    }

    fn add_bias(&self, y: Tensor) -> Result<Tensor> {
        match &self.bias {
            Some(bias) => y.bias(bias),
            None => Ok(y),
        }
    }
}
