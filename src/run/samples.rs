//! The samples a run trains on and those it holds out, with the warnings they call for.

use std::path::{Path, PathBuf};

use crate::data::{self, Eos, Sample};
use crate::error;
use crate::error::Result;
use crate::run::Package;
use crate::run::base::Base;
use crate::run::log::Log;
use crate::train::{BUILT_IN, EosOption, Event, Listener, TrainOptions};

/// The training data: what `--data` names, or the sample corpus for the built-in model.
pub fn data_path(options: &TrainOptions, package: &Package) -> Result<PathBuf> {
    match &options.data {
        Some(data) => Ok(data.into()),
        None if options.model == BUILT_IN => Ok(package.sample_corpus()),
        None => {
            Err(error!(Usage, "data is missing")
                .hint("name a .txt or .jsonl file: --data corpus.txt"))
        }
    }
}

/// Samples of at most `seq_len` tokens of the file `data`: those to train on, and those held out, which may be none.
pub fn read(
    options: &TrainOptions,
    data: &Path,
    base: &Base,
    seq_len: usize,
    log: &Log,
) -> Result<(Vec<Sample>, Vec<Sample>)> {
    let eos = match options.eos {
        EosOption::Auto => Eos::Append,
        EosOption::Never => Eos::Never,
    };
    if eos == Eos::Append && base.tokenizer.eos().is_none() {
        let message =
            "the tokenizer has no end token, so the model will not learn where a text ends";
        warn(log, "NO_EOS", message.to_owned());
    }
    let read = |path: &Path| -> Result<Vec<Sample>> {
        let documents = data::documents::read(path)?;
        if let Some(first) = documents.empty.first() {
            let count = documents.empty.len();
            let message = format!("{count} empty texts are left out, {first} first");
            warn(log, "EMPTY_TEXT", message);
        }
        data::samples(&documents.documents, &base.tokenizer, seq_len, eos)
    };
    let samples = read(data)?;
    let longest = longest(&samples);
    let context = base.spec.context;
    if longest > context {
        let message = format!(
            "samples of {longest} tokens are longer than the {context} the model was made for"
        );
        warn(log, "LONG_SEQUENCE", message);
    }
    if let Some(path) = &options.eval_data {
        return Ok((samples, read(Path::new(path))?));
    }
    if options.eval_split == 0.0 {
        return Ok((samples, Vec::new()));
    }
    if samples.len() < 2 {
        return Err(error!(
            BadData,
            "one sample cannot be split into training and evaluation"
        )
        .hint("use more data, a smaller --seq-len, or --eval-data"));
    }
    Ok(data::split(samples, options.eval_split, options.seed))
}

/// Tokens of the longest sample.
pub fn longest(samples: &[Sample]) -> usize {
    let lengths = samples.iter().map(|sample| sample.ids.len());
    lengths.max().unwrap_or(0)
}

fn warn(log: &Log, code: &'static str, message: String) {
    log.event(&Event::Warning { code, message });
}
