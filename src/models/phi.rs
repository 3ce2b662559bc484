//! Phi-3 (arXiv:2404.14219) and Phi-4-mini: fused projections, LongRoPE, a window, and heads that turn only in part.

use crate::error::Result;
use crate::format::Config;
use crate::models::DecoderSpec;
use crate::models::spec::read_window;

pub fn read(config: &Config) -> Result<DecoderSpec> {
    let mut spec = DecoderSpec::read(config, None)?;
    spec.fused = true;
    spec.set_windows(config, read_window(config, None)?, |_| true)?;
    Ok(spec)
}
