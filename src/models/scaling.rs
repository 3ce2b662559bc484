//! Rope parameters as files spell them: `rope_theta` and `rope_scaling` in older config.json, `rope_parameters` in newer
//! ones, `rope.*` keys and `rope_*.weight` tensors in GGUF.

use crate::bail;
use crate::error::Result;
use crate::format::{Config, key};
use crate::models::DecoderSpec;
use crate::nn::{Loader, RopeSpec, Scaling};

/// The rope of the layers that see everything.
pub fn read_rope(config: &Config, head_dim: usize) -> Result<RopeSpec> {
    if config.is_gguf() {
        return Ok(RopeSpec {
            theta: config
                .number_or(key("", "rope.freq_base"), Some(10_000.0))?
                .unwrap_or(10_000.0),
            dims: config.count_or(key("", "rope.dimension_count"), head_dim)?,
            scaling: gguf_scaling(config)?,
        });
    }
    let parameters = config
        .section("rope_parameters")
        .or_else(|| config.section("rope_scaling"));
    let parameters = parameters.map(|all| all.section("full_attention").unwrap_or(all));
    let empty = Config::HuggingFace(Default::default());
    let rope = parameters.as_ref().unwrap_or(&empty);
    let theta = key("rope_theta", "");
    let theta = rope
        .number_or(theta, config.number_or(theta, Some(10_000.0))?)?
        .unwrap_or(10_000.0);
    let partial = key("partial_rotary_factor", "");
    let part = rope
        .number_or(partial, config.number_or(partial, Some(1.0))?)?
        .unwrap_or(1.0);
    Ok(RopeSpec {
        theta,
        dims: (head_dim as f64 * part) as usize,
        scaling: hf_scaling(config, rope)?,
    })
}

fn hf_scaling(config: &Config, rope: &Config) -> Result<Scaling> {
    let kind = rope
        .text(key("rope_type", ""))
        .or_else(|| rope.text(key("type", "")));
    let factor = key("factor", "");
    let context = config.count(key("max_position_embeddings", ""))?;
    let original = key("original_max_position_embeddings", "");
    let original = rope.count_or(original, config.count_or(original, context)?)?;
    let attention_factor = rope.number_or(key("attention_factor", ""), None)?;
    Ok(match kind {
        None | Some("default") => Scaling::None,
        Some("linear") => Scaling::Linear {
            factor: rope.number(factor)?,
        },
        Some("llama3") => Scaling::Llama3 {
            factor: rope.number(factor)?,
            low: rope.number(key("low_freq_factor", ""))?,
            high: rope.number(key("high_freq_factor", ""))?,
            original: original as f64,
        },
        Some("yarn") => {
            if rope.number_or(key("mscale", ""), None)?.is_some()
                || rope.flag(key("truncate", "")) == Some(false)
            {
                bail!(
                    UnsupportedModel,
                    "yarn rope scaling with mscale or without truncation is not known"
                );
            }
            let factor = rope.number(factor)?;
            Scaling::Yarn {
                factor,
                beta_fast: rope
                    .number_or(key("beta_fast", ""), Some(32.0))?
                    .unwrap_or(32.0),
                beta_slow: rope
                    .number_or(key("beta_slow", ""), Some(1.0))?
                    .unwrap_or(1.0),
                original: original as f64,
                magnitude: attention_factor.unwrap_or_else(|| yarn_magnitude(factor)),
            }
        }
        Some("longrope" | "su") => {
            let (Some(short), Some(long)) =
                (rope.numbers("short_factor"), rope.numbers("long_factor"))
            else {
                bail!(
                    BadModel,
                    "longrope scaling needs the lists short_factor and long_factor"
                );
            };
            let factor = context as f64 / original as f64;
            let magnitude = match factor > 1.0 {
                true => (1.0 + factor.ln() / (original as f64).ln()).sqrt(),
                false => 1.0,
            };
            Scaling::Long {
                short,
                long,
                original,
                magnitude: attention_factor.unwrap_or(magnitude),
            }
        }
        Some(other) => bail!(UnsupportedModel, "the rope scaling {other} is not known"),
    })
}

fn gguf_scaling(config: &Config) -> Result<Scaling> {
    let factor = config.number_or(key("", "rope.scaling.factor"), None)?;
    let original = key("", "rope.scaling.original_context_length");
    Ok(match config.text(key("", "rope.scaling.type")) {
        None | Some("none" | "longrope") => Scaling::None,
        Some("linear") => match factor {
            Some(factor) => Scaling::Linear { factor },
            None => Scaling::None,
        },
        Some("yarn") => {
            let Some(factor) = factor else {
                bail!(BadModel, "yarn rope scaling without rope.scaling.factor");
            };
            let named = |name| key("", name);
            let attention = config.number_or(named("rope.scaling.yarn_attn_factor"), Some(1.0))?;
            Scaling::Yarn {
                factor,
                beta_fast: config
                    .number_or(named("rope.scaling.yarn_beta_fast"), Some(32.0))?
                    .unwrap_or(32.0),
                beta_slow: config
                    .number_or(named("rope.scaling.yarn_beta_slow"), Some(1.0))?
                    .unwrap_or(1.0),
                original: config.count_or(original, config.count(named("context_length"))?)? as f64,
                magnitude: attention.unwrap_or(1.0) * yarn_magnitude(factor),
            }
        }
        Some(other) => bail!(UnsupportedModel, "the rope scaling {other} is not known"),
    })
}

/// Peng et al. 2023, arXiv:2309.00071, eq. 22.
fn yarn_magnitude(factor: f64) -> f64 {
    if factor > 1.0 {
        0.1 * factor.ln() + 1.0
    } else {
        1.0
    }
}

/// Takes in the divisors that GGUF files keep as tensors: llama3's per pair, Phi-3's short and long lists.
pub fn take_factors(config: &Config, spec: &mut DecoderSpec, loader: &Loader) -> Result<()> {
    let half = spec.ropes[0].dims / 2;
    let read =
        |name: &str| -> Result<Vec<f32>> { Ok(loader.tensor(name, [half])?.values()?.to_vec()) };
    if loader.has("rope_freqs.weight") {
        spec.ropes[0].scaling = Scaling::Factors(read("rope_freqs.weight")?);
    }
    if loader.has("rope_factors_long.weight") {
        let attention = config.number_or(key("", "rope.scaling.attn_factor"), Some(1.0))?;
        spec.ropes[0].scaling = Scaling::Long {
            short: read("rope_factors_short.weight")?,
            long: read("rope_factors_long.weight")?,
            original: config.count_or(
                key("", "rope.scaling.original_context_length"),
                spec.context,
            )?,
            magnitude: attention.unwrap_or(1.0),
        };
    }
    Ok(())
}
