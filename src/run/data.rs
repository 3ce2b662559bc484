//! The `data` command: what training data holds and how it would be trained, without training.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::bail;
use crate::data::{Piece, Report, TrainOn, Truncate, pieces};
use crate::error::Result;
use crate::run::base::Base;
use crate::run::{Package, samples};
use crate::train::{EosOption, Listener, OnOff, TrainOptions};

/// What to look at, and how it would be trained. The names are those of [`TrainOptions`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DataOptions {
    pub data: String,
    pub model: String,
    pub seq_len: Option<usize>,
    pub truncate: Option<Truncate>,
    pub strict: bool,
    pub chat_template: Option<String>,
    pub train_on: Option<TrainOn>,
    pub mask_role_header: OnOff,
    pub eos: EosOption,
    /// How many samples to show.
    pub show: usize,
}

impl Default for DataOptions {
    fn default() -> Self {
        let train = TrainOptions::default();
        DataOptions {
            data: String::new(),
            model: train.model,
            seq_len: train.seq_len,
            truncate: train.truncate,
            strict: train.strict,
            chat_template: train.chat_template,
            train_on: train.train_on,
            mask_role_header: train.mask_role_header,
            eos: train.eos,
            show: 3,
        }
    }
}

/// What the data came to, and its first samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DataReport {
    #[serde(flatten)]
    pub report: Report,
    pub shown: Vec<Shown>,
}

/// A sample as text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    pub place: String,
    pub tokens: usize,
    pub pieces: Vec<Piece>,
}

/// Reads the data as a training run with the same options would; warnings go to `listener`.
pub fn data(
    options: &DataOptions,
    package: &Package,
    listener: &dyn Listener,
    stop: &AtomicBool,
) -> Result<DataReport> {
    if options.data.is_empty() {
        bail!(Usage, "data is missing; name a file or a folder");
    }
    let train = TrainOptions {
        data: Some(options.data.clone()),
        model: options.model.clone(),
        seq_len: options.seq_len,
        truncate: options.truncate,
        strict: options.strict,
        chat_template: options.chat_template.clone(),
        train_on: options.train_on,
        mask_role_header: options.mask_role_header,
        eos: options.eos,
        ..TrainOptions::default()
    };
    let base = Base::open(&package.model_path(&options.model))?;
    let corpus = samples::read(
        &train,
        Path::new(&options.data),
        &base,
        SystemTime::now(),
        listener,
        stop,
    )?;
    let shown = corpus.samples.iter().take(options.show).map(|sample| {
        Ok(Shown {
            place: sample.place.clone(),
            tokens: sample.ids.len(),
            pieces: pieces(sample, &base.tokenizer)?,
        })
    });
    Ok(DataReport {
        shown: shown.collect::<Result<_>>()?,
        report: corpus.report,
    })
}
