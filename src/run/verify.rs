//! `verify`: whether an exported file, read back from disk, computes what the trained adapter does.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::bail;
use crate::error;
use crate::error::Result;
use crate::format::digest;
use crate::format::gguf::GgufFile;
use crate::models::Decoder;
use crate::nn::Loader;
use crate::quant::Format;
use crate::run::Package;
use crate::run::adapted::{Adapted, sidecar, with_threads};
use crate::run::base::Base;
use crate::tensor::{Ctx, Rows, Tensor};
use crate::train::{BUILT_IN, Event, Listener};

/// What is asked of both. Enough tokens that an error in any layer shows, of kinds that models know.
const PROMPTS: [&str; 3] = [
    "The quick brown fox jumps over the lazy dog, and then",
    "Question: What is the capital of France?\nAnswer:",
    "def add(a, b):\n    return",
];

/// Options of `verify`; absent ones have the defaults of the option table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VerifyOptions {
    pub model: String,
    pub adapter: String,
    pub exported: String,
    pub backend: String,
    pub threads: usize,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions {
            model: BUILT_IN.to_owned(),
            adapter: String::new(),
            exported: String::new(),
            backend: "auto".to_owned(),
            threads: 0,
        }
    }
}

/// How far the logits of one prompt are apart.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    pub prompt: &'static str,
    pub tokens: usize,
    pub max_difference: f64,
    /// Relative to the largest logit.
    pub max_relative_difference: f64,
    /// Kullback-Leibler divergence of the exported distribution from the trained one: nats, mean over the tokens.
    pub kl: f64,
    /// Share of tokens after which both find the same next token most likely.
    pub top1_agreement: f64,
}

/// The verdict.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    /// Whether every prompt's divergence is within `tolerance` and no file has another hash than its sidecar says.
    pub passed: bool,
    /// The coarsest type of the exported weights.
    #[serde(rename = "weightType")]
    pub format: &'static str,
    /// Most nats of `kl` for weights of that type.
    pub tolerance: f64,
    pub prompts: Vec<Comparison>,
    /// Files with another hash than the sidecar beside them says.
    pub changed_files: Vec<String>,
}

/// Compares both, prompt by prompt; `stop` is heard between them.
pub fn verify(
    options: &VerifyOptions,
    package: &Package,
    listener: &dyn Listener,
    stop: &AtomicBool,
) -> Result<Verified> {
    let go_on = || match stop.load(Ordering::Relaxed) {
        true => Err(error!(
            Aborted,
            "stopped before the last prompt was compared"
        )),
        false => Ok(()),
    };
    with_threads(&options.backend, options.threads, || {
        go_on()?;
        let adapted = Adapted::open(&options.model, Some(&options.adapter), package, listener)?;
        let trained = adapted.decoder(adapted.adapter())?;
        go_on()?;
        let path = Path::new(&options.exported);
        let (exported, format) = match is_adapter(path) {
            true => {
                let again = Some(options.exported.as_str());
                let again = Adapted::open(&options.model, again, package, listener)?;
                (again.decoder(again.adapter())?, Format::F32)
            }
            false => merged(path)?,
        };
        let mut changed_files = Vec::new();
        for path in [Path::new(&options.adapter), path] {
            go_on()?;
            changed_files.extend(changed(path)?);
        }
        changed_files.dedup();
        let mut prompts = Vec::new();
        for (number, prompt) in PROMPTS.into_iter().enumerate() {
            go_on()?;
            let ids = adapted.base.tokenizer.encode_document(prompt)?;
            prompts.push(compare(prompt, ids, &trained, &exported)?);
            listener.event(&Event::Progress {
                what: "comparing".to_owned(),
                done: number + 1,
                total: PROMPTS.len(),
            });
        }
        let tolerance = tolerance(format);
        let is_near = |prompt: &Comparison| prompt.kl <= tolerance;
        Ok(Verified {
            passed: prompts.iter().all(is_near) && changed_files.is_empty(),
            format: format.name(),
            tolerance,
            prompts,
            changed_files,
        })
    })
}

/// Most nats that the distributions may be apart, by the bits of the coarsest weights.
fn tolerance(format: Format) -> f64 {
    match format {
        Format::F32 => 1e-5,
        Format::F16 => 1e-3,
        Format::BF16 | Format::Q8_0 => 1e-2,
        Format::Q6K | Format::Q5K | Format::Q5_0 | Format::Q5_1 => 0.1,
        Format::Q2K => 2.0,
        _ => 0.5,
    }
}

fn is_adapter(path: &Path) -> bool {
    let is_kind = |kind: &str| path.extension().is_some_and(|ending| ending == kind);
    let is_gguf_adapter = || {
        let file = GgufFile::open(path);
        file.is_ok_and(|file| file.metadata().string("general.type") == Some("adapter"))
    };
    path.join("adapter_config.json").exists()
        || is_kind("safetensors")
        || is_kind("gguf") && is_gguf_adapter()
}

/// The merged model at `path`, and the type of its weights with the fewest bits.
fn merged(path: &Path) -> Result<(Decoder, Format)> {
    let base = Base::open(path)?;
    let loader = Loader::new(base.checkpoint.source(), None);
    let model = Decoder::load(base.checkpoint.config(), &loader)?;
    let tensors = base.checkpoint.catalog().tensors().iter();
    let formats = tensors.filter_map(|tensor| tensor.format);
    let bits = |format: &Format| format.block_bytes() * 1024 / format.block_elements();
    // BF16 has fewer digits than F16 in as many bits.
    let coarsest = formats.min_by_key(|format| (bits(format), *format == Format::F16));
    Ok((model, coarsest.unwrap_or(Format::F32)))
}

/// The files beside the sidecar of `path` whose hash is not the one it holds.
fn changed(path: &Path) -> Result<Vec<String>> {
    let Some((place, about)) = sidecar(path)? else {
        return Ok(Vec::new());
    };
    let mut changed = Vec::new();
    for (name, file) in about["files"].as_object().into_iter().flatten() {
        let file_path: PathBuf = place.with_file_name(name);
        let same = file_path.is_file()
            && Some(digest::file(&file_path)?.as_str()) == file["sha256"].as_str();
        if !same {
            changed.push(file_path.display().to_string());
        }
    }
    Ok(changed)
}

fn compare(
    prompt: &'static str,
    ids: Vec<u32>,
    trained: &Decoder,
    exported: &Decoder,
) -> Result<Comparison> {
    let tokens = ids.len();
    let ids = Tensor::of_u32(ids, [tokens])?;
    let ctx = Ctx::infer(Rows::of_samples(&[(0, tokens)])?);
    let (ours, theirs) = (trained.logits(&ids, &ctx)?, exported.logits(&ids, &ctx)?);
    if ours.shape() != theirs.shape() {
        bail!(
            BadModel,
            "the logits of the base are {}, those of the exported model {}",
            ours.shape(),
            theirs.shape()
        );
    }
    let vocab = ours.shape().last();
    let (ours, theirs) = (ours.values()?, theirs.values()?);
    let pairs = || {
        ours.iter()
            .zip(theirs)
            .map(|(a, b)| (f64::from(*a), f64::from(*b)))
    };
    let max_difference = pairs().map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let largest = pairs()
        .map(|(a, _)| a.abs())
        .fold(f64::MIN_POSITIVE, f64::max);
    let rows = || ours.chunks(vocab).zip(theirs.chunks(vocab));
    let kl: f64 = rows().map(|(a, b)| divergence(a, b)).sum();
    let agree = rows().filter(|(a, b)| top(a) == top(b)).count();
    if !kl.is_finite() {
        bail!(NonFinite, "logits of the prompt {prompt:?} are not finite");
    }
    Ok(Comparison {
        prompt,
        tokens,
        max_difference,
        max_relative_difference: max_difference / largest,
        kl: kl / tokens as f64,
        top1_agreement: agree as f64 / tokens as f64,
    })
}

/// Σ p·(ln p − ln q) with p = softmax(a), q = softmax(b).
fn divergence(a: &[f32], b: &[f32]) -> f64 {
    let (norm_a, norm_b) = (log_sum(a), log_sum(b));
    let terms = a.iter().zip(b).map(|(a, b)| {
        let (ln_p, ln_q) = (f64::from(*a) - norm_a, f64::from(*b) - norm_b);
        ln_p.exp() * (ln_p - ln_q)
    });
    // Rounding can take a divergence of nothing below it.
    terms.sum::<f64>().max(0.0)
}

fn log_sum(logits: &[f32]) -> f64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|x| f64::from(x - most).exp()).sum();
    f64::from(most) + sum.ln()
}

fn top(logits: &[f32]) -> Option<usize> {
    let order = logits.iter().enumerate();
    order
        .max_by(|a, b| a.1.total_cmp(b.1))
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergence_is_the_one_worked_out_by_hand() {
        // p = (3/4, 1/4), q = (1/2, 1/2): ¾·ln 1.5 + ¼·ln 0.5. Adding a constant to logits changes nothing.
        let p = [3.0_f32.ln() + 5.0, 5.0];
        let expected = 0.75 * 1.5_f64.ln() + 0.25 * 0.5_f64.ln();
        assert!((divergence(&p, &[7.0, 7.0]) - expected).abs() < 1e-6);
        assert_eq!(divergence(&p, &p), 0.0);
        assert_eq!(top(&p), Some(0));
    }
}
