//! Writing text: one token after another through a cache of keys and values.

mod sampler;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bail;
use crate::error::Result;
use crate::models::Decoder;
use crate::tensor::{Ctx, KvCache, Rows, Tensor};

pub use sampler::Sampler;

/// Continues `prompt` (at least one id) by at most `tokens` ids; ends early after an id of `ends` (which is not returned)
/// or when `stop` is set.
pub fn generate(
    model: &Decoder,
    prompt: &[u32],
    tokens: usize,
    ends: &[u32],
    sampler: &Sampler,
    stop: &AtomicBool,
) -> Result<Vec<u32>> {
    if prompt.is_empty() {
        bail!(Usage, "generation needs a prompt of at least one token");
    }
    let cache = Arc::new(KvCache::default());
    let (mut written, mut next, mut position) = (Vec::new(), prompt.to_vec(), 0);
    while written.len() < tokens && !stop.load(Ordering::Relaxed) {
        let time = next.len();
        let ctx = Ctx::infer(Rows::continuing(position, time)?).with_cache(cache.clone());
        let logits = model.last_logits(&Tensor::of_u32(next, [time])?, &ctx)?;
        position += time;
        let id = sampler.pick(logits.values()?, written.len() as u64);
        if ends.contains(&id) {
            break;
        }
        written.push(id);
        next = vec![id];
    }
    Ok(written)
}
