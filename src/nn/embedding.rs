//! Rows of the embedding table by token id, plus what an adapter adds when the table learns.
//!
//! LoRA adds s·B·A[:, id]. DoRA multiplies W[id] + s·B·A[:, id] by m / ‖W + s·(B·A)ᵀ‖, channel by channel.

use std::sync::Arc;

use crate::error::Result;
use crate::lora::{Adapter, Factors};
use crate::quant::Weight;
use crate::tensor::{Ctx, Tensor};

pub struct Embedding {
    path: String,
    table: Weight,
    adapter: Option<Arc<Adapter>>,
}

impl Embedding {
    /// `table` [vocab, width]; `adapter` holds the factors of `path`.
    pub fn new(path: String, table: Weight, adapter: Option<Arc<Adapter>>) -> Embedding {
        Embedding {
            path,
            table,
            adapter,
        }
    }

    pub fn table(&self) -> &Weight {
        &self.table
    }

    /// u32 ids [time] to [time, width]. An adapter's dropout does not apply here, as in PEFT.
    pub fn forward(&self, ids: &Tensor, ctx: &Ctx) -> Result<Tensor> {
        let y = ids.embedding(&self.table)?;
        let Some(adapter) = &self.adapter else {
            return Ok(y);
        };
        let Factors { a, b, scale, dora } =
            adapter.factors(&self.path, &self.table, ctx.recording)?;
        let y = y.add_scaled(&a.columns(ids)?.matmul_t(&b)?, scale)?;
        match dora {
            None => Ok(y),
            Some(dora) => {
                let scaled = y.scale_columns(&dora.magnitude)?;
                scaled.scale_columns(&dora.inverse_lengths)
            }
        }
    }
}
