//! Writing text: one token after another through a cache of keys and values.

mod sampler;

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::bail;
use crate::error::Result;
use crate::models::Decoder;
use crate::tensor::{Ctx, KvCache, Rows, Tensor};

pub use sampler::Sampler;

/// Continues `prompt` (at least one id) by at most `tokens` ids; ends early after an id of `ends` (which is not
/// returned), or when `each`, which gets every id once it is chosen, breaks.
pub fn generate(
    model: &Decoder,
    prompt: &[u32],
    tokens: usize,
    ends: &[u32],
    sampler: &Sampler,
    each: &mut dyn FnMut(u32) -> Result<ControlFlow<()>>,
) -> Result<Vec<u32>> {
    if prompt.is_empty() {
        bail!(Usage, "generation needs a prompt of at least one token");
    }
    let cache = Arc::new(KvCache::with_capacity(prompt.len() + tokens));
    let (mut seen, mut position) = (prompt.to_vec(), 0);
    while seen.len() < prompt.len() + tokens {
        let next = seen[position..].to_vec();
        let time = next.len();
        let ctx = Ctx::infer(Rows::continuing(position, time)?).with_cache(cache.clone());
        let logits = model.last_logits(&Tensor::of_u32(next, [time])?, &ctx)?;
        position += time;
        let index = (seen.len() - prompt.len()) as u64;
        let id = sampler.pick(logits.values()?, &seen, index);
        if ends.contains(&id) {
            break;
        }
        seen.push(id);
        if each(id)?.is_break() {
            break;
        }
    }
    Ok(seen.split_off(prompt.len()))
}
