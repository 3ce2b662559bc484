//! `eval`: loss and perplexity of a data file, with and without an adapter, through the data path of training.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::bail;
use crate::data::{Batch, Sample, TrainOn, Truncate};
use crate::error::Result;
use crate::models::Decoder;
use crate::run::Package;
use crate::run::adapted::{Adapted, with_threads};
use crate::run::samples;
use crate::tensor::Ctx;
use crate::train::{BUILT_IN, EosOption, Event, Listener, OnOff, TrainOptions};

/// Options of `eval`; absent ones have the defaults of the option table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EvaluateOptions {
    pub model: String,
    pub adapter: Option<String>,
    pub data: String,
    pub seq_len: Option<usize>,
    pub truncate: Option<Truncate>,
    pub strict: bool,
    pub chat_template: Option<String>,
    pub train_on: Option<TrainOn>,
    pub mask_role_header: OnOff,
    pub eos: EosOption,
    pub backend: String,
    pub threads: usize,
}

impl Default for EvaluateOptions {
    fn default() -> Self {
        EvaluateOptions {
            model: BUILT_IN.to_owned(),
            adapter: None,
            data: String::new(),
            seq_len: None,
            truncate: None,
            strict: false,
            chat_template: None,
            train_on: None,
            mask_role_header: OnOff::On,
            eos: EosOption::Auto,
            backend: "auto".to_owned(),
            threads: 0,
        }
    }
}

/// Loss in nats per target token, and its exponential.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Score {
    pub loss: f64,
    pub perplexity: f64,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluated {
    pub samples: usize,
    /// Target tokens.
    pub tokens: usize,
    pub base: Score,
    /// With the adapter; none without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Score>,
}

/// Measures the base, then the adapter on it.
pub fn evaluate(
    options: &EvaluateOptions,
    package: &Package,
    listener: &dyn Listener,
    stop: &AtomicBool,
) -> Result<Evaluated> {
    if options.data.is_empty() {
        bail!(Usage, "--data is missing; name the file to measure");
    }
    with_threads(&options.backend, options.threads, || {
        let adapted = Adapted::open(
            &options.model,
            options.adapter.as_deref(),
            package,
            listener,
        )?;
        let base = &adapted.base;
        let as_in_training = TrainOptions {
            seq_len: options.seq_len,
            truncate: options.truncate,
            strict: options.strict,
            chat_template: options.chat_template.clone(),
            train_on: options.train_on,
            mask_role_header: options.mask_role_header,
            eos: options.eos,
            ..TrainOptions::default()
        };
        let path = Path::new(&options.data);
        let samples = samples::read(
            &as_in_training,
            path,
            base,
            SystemTime::now(),
            listener,
            stop,
        )?
        .samples;
        let tokens = samples.iter().map(Sample::target_count).sum();
        let score =
            |what, model: &Decoder| measure(model, &samples, tokens, (what, listener, stop));
        let base = score("base", &adapted.decoder(None)?)?;
        let adapter = match adapted.adapter() {
            Some(adapter) => Some(score("adapter", &adapted.decoder(Some(adapter))?)?),
            None => None,
        };
        Ok(Evaluated {
            samples: samples.len(),
            tokens,
            base,
            adapter,
        })
    })
}

fn measure(
    model: &Decoder,
    samples: &[Sample],
    tokens: usize,
    (what, listener, stop): (&'static str, &dyn Listener, &AtomicBool),
) -> Result<Score> {
    let mut loss = 0.0;
    for number in 0..samples.len() {
        if stop.load(Ordering::Relaxed) {
            bail!(Aborted, "stopped before the last sample was measured");
        }
        let batch = Batch::new(samples, &[number])?;
        let ctx = Ctx::infer(batch.rows.clone());
        let losses = model.losses(&batch.ids, &batch.targets, &ctx)?;
        loss += losses
            .values()?
            .iter()
            .map(|&loss| f64::from(loss))
            .sum::<f64>();
        listener.event(&Event::Progress {
            what: what.to_owned(),
            done: number + 1,
            total: samples.len(),
        });
    }
    let loss = loss / tokens as f64;
    if !loss.is_finite() {
        bail!(NonFinite, "the loss of the {what} is {loss}");
    }
    Ok(Score {
        loss,
        perplexity: loss.exp(),
    })
}
