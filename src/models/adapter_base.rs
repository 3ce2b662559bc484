//! A checkpoint as its adapters' files see it.

use crate::error::Result;
use crate::format::Checkpoint;
use crate::format::adapter::Base;
use crate::models::read;

/// What reading or writing an adapter of `checkpoint` needs; loads nothing.
pub fn adapter_base(checkpoint: &Checkpoint) -> Result<Base> {
    let (family, spec) = read(checkpoint.config())?;
    let source = checkpoint.source();
    Ok(Base {
        architecture: family.name,
        heads: spec.heads,
        kv_heads: spec.kv_heads,
        pairs: spec.pairs,
        tied: spec.tied || !source.has("lm_head.weight"),
        source,
    })
}
