//! Gemma 2 (arXiv:2408.00118) and Gemma 3 (arXiv:2503.19786): scaled embeddings, norms on both sides with weights stored as
//! w − 1, tanh-GELU, layers with a window between layers without; soft caps in 2, head norms and a second rope in 3.

use crate::error::Result;
use crate::format::{Config, key};
use crate::models::DecoderSpec;
use crate::models::spec::read_window;
use crate::nn::{RopeSpec, Scaling};
use crate::ops::Activation;

/// The biggest models scale scores by width / heads instead of the head size; GGUF files tell them by their layers.
const LARGE_GEMMA2_LAYERS: usize = 46;
const LARGE_GEMMA3_LAYERS: usize = 62;

pub fn read_gemma2(config: &Config) -> Result<DecoderSpec> {
    let mut spec = read(config, LARGE_GEMMA2_LAYERS)?;
    let cap = |hf, gguf, default| config.number_or(key(hf, gguf), Some(default));
    spec.attention_cap =
        cap("attn_logit_softcapping", "attn_logit_softcapping", 50.0)?.map(|cap| cap as f32);
    spec.logit_cap =
        cap("final_logit_softcapping", "final_logit_softcapping", 30.0)?.map(|cap| cap as f32);
    let window = read_window(config, Some(4096))?;
    spec.set_windows(config, window, |layer| layer.is_multiple_of(2))?;
    Ok(spec)
}

pub fn read_gemma3(config: &Config) -> Result<DecoderSpec> {
    let mut spec = read(config, LARGE_GEMMA3_LAYERS)?;
    spec.head_norm = true;
    let pattern = key("sliding_window_pattern", "attention.sliding_window_pattern");
    let pattern = config.count_or(pattern, 6)?;
    let window = read_window(config, Some(4096))?;
    spec.set_windows(config, window, |layer| !(layer + 1).is_multiple_of(pattern))?;
    let local = config
        .section("rope_parameters")
        .and_then(|all| all.section("sliding_attention"));
    let theta = match local {
        Some(local) => local.number_or(key("rope_theta", ""), Some(10_000.0))?,
        None => config.number_or(
            key("rope_local_base_freq", "rope.freq_base_swa"),
            Some(10_000.0),
        )?,
    };
    spec.ropes.push(RopeSpec {
        theta: theta.unwrap_or(10_000.0),
        dims: spec.head_dim,
        scaling: Scaling::None,
    });
    for layer in &mut spec.layers {
        layer.rope = usize::from(layer.window.is_some());
    }
    Ok(spec)
}

fn read(config: &Config, large: usize) -> Result<DecoderSpec> {
    let mut spec = DecoderSpec::read(config, Some(256))?;
    spec.activation = Activation::GeluTanh;
    spec.norm.offset = 1.0;
    spec.sandwich_norms = true;
    spec.embedding_scale = (spec.width as f32).sqrt();
    spec.tied = config.flag(key("tie_word_embeddings", "")).unwrap_or(true);
    let per_head = match config.is_gguf() {
        true if spec.layers.len() == large => spec.width / spec.heads,
        true => spec.head_dim,
        false => 256,
    };
    let scalar = config.number_or(key("query_pre_attn_scalar", ""), Some(per_head as f64))?;
    spec.attention_scale = 1.0 / (scalar.unwrap_or(per_head as f64) as f32).sqrt();
    Ok(spec)
}
