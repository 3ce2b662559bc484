//! A short text by the model, before, during and after training, to see it learn.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::data::{Sample, Tokenizer};
use crate::error::Result;
use crate::generate::{Sampler, generate};
use crate::models::Decoder;
use crate::train::{Event, Listener, SampleMoment};

/// Tokens of the data a text starts with, and tokens the model adds.
const PROMPT_TOKENS: usize = 16;
const TOKENS: usize = 64;

/// Lets the model continue the beginning of the sample in the middle of the data and tells the listener.
pub fn tell_sample(
    model: &Decoder,
    tokenizer: &Tokenizer,
    samples: &[Sample],
    (step, moment): (usize, SampleMoment),
    listener: &dyn Listener,
    stop: &AtomicBool,
) -> Result<()> {
    let ids = &samples[samples.len() / 2].ids;
    // At least one token of the sample is left for the model to say.
    let prompt = &ids[..PROMPT_TOKENS.min(ids.len() - 1)];
    let shown = match prompt {
        [first, rest @ ..] if tokenizer.bos() == Some(*first) => rest,
        all => all,
    };
    let sampler = Sampler {
        temperature: 0.7,
        top_k: 40,
        seed: 1,
        ..Sampler::default()
    };
    let ends: Vec<u32> = tokenizer.eos().into_iter().collect();
    let written = generate(model, prompt, TOKENS, &ends, &sampler, &mut |_| {
        Ok(match stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    })?;
    listener.event(&Event::Sample {
        step,
        moment,
        prompt: tokenizer.decode(shown)?,
        text: tokenizer.decode(&written)?,
    });
    Ok(())
}
