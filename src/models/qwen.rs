//! Qwen2 (arXiv:2407.10671): biases on q, k, v. Qwen3 (arXiv:2505.09388): norms on the heads of q and k instead.

use crate::error::Result;
use crate::format::{Config, key};
use crate::models::DecoderSpec;
use crate::models::spec::read_window;

pub fn read_qwen2(config: &Config) -> Result<DecoderSpec> {
    let mut spec = DecoderSpec::read(config, None)?;
    read_windows(config, &mut spec)?;
    Ok(spec)
}

pub fn read_qwen3(config: &Config) -> Result<DecoderSpec> {
    let mut spec = DecoderSpec::read(config, Some(128))?;
    spec.head_norm = true;
    read_windows(config, &mut spec)?;
    Ok(spec)
}

/// Layers from `max_window_layers` on have a window, when windows are on at all. GGUF files do not say.
fn read_windows(config: &Config, spec: &mut DecoderSpec) -> Result<()> {
    if config.flag(key("use_sliding_window", "")) != Some(true) {
        return Ok(());
    }
    let first = config
        .number_or(key("max_window_layers", ""), Some(28.0))?
        .unwrap_or(0.0) as usize;
    spec.set_windows(config, read_window(config, Some(4096))?, |layer| {
        layer >= first
    })
}
