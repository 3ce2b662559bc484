//! The samples a run trains on and those it holds out, with what is told of them.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use crate::data::chat::Chat;
use crate::data::reading::{self, list};
use crate::data::{self, Cut, Encoder, Encoding, Eos, Report, Sample, Samples};
use crate::error;
use crate::error::{Code, Error, Result};
use crate::run::Package;
use crate::run::base::Base;
use crate::run::start::go_on;
use crate::train::{BUILT_IN, EosOption, Event, Listener, TrainOptions};

/// Tokens per sample, when the model's context is not shorter.
const SEQ_LEN: usize = 512;

/// Training data, ready.
pub struct Corpus {
    pub samples: Vec<Sample>,
    /// Held out for evaluation; may be none.
    pub eval: Vec<Sample>,
    /// SHA-256 of the template that wrote the conversations; none where there were none.
    pub chat_template_sha256: Option<String>,
    /// Whether that template may have written the time.
    pub tells_time: bool,
    /// Of the training data, before any is held out.
    pub report: Report,
}

/// The training data: what `--data` names, or the sample corpus for the built-in model.
pub fn data_path(options: &TrainOptions, package: &Package) -> Result<PathBuf> {
    match &options.data {
        Some(data) => Ok(data.into()),
        None if options.model == BUILT_IN => Ok(package.sample_corpus()),
        None => {
            Err(error!(Usage, "data is missing")
                .hint("name a file or a folder: --data chats.jsonl"))
        }
    }
}

/// Most tokens of a sample.
pub fn seq_len(options: &TrainOptions, base: &Base) -> usize {
    options.seq_len.unwrap_or(SEQ_LEN.min(base.spec.context))
}

/// Reads the file or folder `data` and what the options say of evaluation; `stop` is heard between records, and `now` is what
/// chat templates take for the time.
pub fn read(
    options: &TrainOptions,
    data: &Path,
    base: &Base,
    now: SystemTime,
    listener: &dyn Listener,
    stop: &AtomicBool,
) -> Result<Corpus> {
    let tokenizer = &base.tokenizer;
    let warn = |code, message| listener.event(&Event::Warning { code, message });
    let encoder = Encoder::new(
        tokenizer,
        Encoding {
            chat_template: options.chat_template.as_deref(),
            train_on: options.train_on,
            role_header: options.role_header(),
            eos: match options.eos {
                EosOption::Auto => Eos::Append,
                EosOption::Never => Eos::Never,
            },
            now,
        },
    );
    let cut = Cut {
        length: seq_len(options, base),
        truncate: options.truncate,
        bos: tokenizer.bos(),
    };
    cut.check()?;
    if options.eos == EosOption::Auto && tokenizer.eos().is_none() {
        let message =
            "the tokenizer has no end token, so the model will not learn where a text ends";
        warn("NO_EOS", message.to_owned());
    }
    let read = |path: &Path| -> Result<(Vec<Sample>, Report)> {
        let (made, report) = read_one(path, &encoder, &cut, stop)?;
        tell(&report, options, &warn)?;
        Ok((made.samples, report))
    };
    let (samples, report) = read(data)?;
    if options.chat_template.is_some() && encoder.used_chat().is_none() {
        return Err(error!(
            Usage,
            "--chat-template is for conversations, and {} has none",
            data.display()
        )
        .hint("leave it out"));
    }
    if let Some(notice) = encoder.used_chat().and_then(|chat| chat.notice()) {
        warn("CHAT_TEMPLATE", notice.to_owned());
    }
    if let Some(chat) = encoder.used_chat() {
        let ends = chat.turn_ends(tokenizer)?;
        let is_end = |id: &u32| ends.contains(id);
        let learned = |sample: &Sample| sample.targets.iter().any(is_end);
        if !ends.is_empty() && !samples.iter().any(learned) {
            let names: Vec<String> = ends
                .iter()
                .map(|&id| tokenizer.decode(&[id]))
                .collect::<Result<_>>()?;
            warn("NO_TURN_END", no_turn_end(&names));
        }
    }
    let (longest, context) = (report.longest, base.spec.context);
    if longest > context {
        let message = format!(
            "samples of {longest} tokens are longer than the {context} the model was made for"
        );
        warn("LONG_SEQUENCE", message);
    }
    let chat_template_sha256 = encoder.used_chat().map(|chat| chat.sha256());
    let (samples, eval) = match &options.eval_data {
        Some(path) => (samples, read(Path::new(path))?.0),
        None if options.eval_split == 0.0 => (samples, Vec::new()),
        None if samples.len() < 2 => {
            return Err(error!(
                BadData,
                "one sample cannot be split into training and evaluation"
            )
            .hint("use more data, a smaller --seq-len, or --eval-data"));
        }
        None => data::split(samples, options.eval_split, options.seed),
    };
    Ok(Corpus {
        samples,
        eval,
        chat_template_sha256,
        tells_time: encoder.used_chat().is_some_and(Chat::tells_time),
        report,
    })
}

/// The samples of one file or folder. Records that cannot be encoded are an error that names the first three.
fn read_one(
    path: &Path,
    encoder: &Encoder,
    cut: &Cut,
    stop: &AtomicBool,
) -> Result<(Samples, Report)> {
    let records = reading::read(path)?;
    let mut made = Samples::default();
    let mut refused: Vec<Error> = Vec::new();
    for record in &records.records {
        go_on(stop)?;
        match encoder.encode(record) {
            Ok(encoded) => cut.add(record, &encoded, &mut made),
            Err(error) if error.code == Code::BadData => refused.push(error),
            // A template that cannot be used at all is said once.
            Err(error) => return Err(error),
        }
        if refused.len() == 3 {
            break;
        }
    }
    if let Some(first) = refused.first() {
        let all: Vec<&str> = refused.iter().map(|error| error.message.as_str()).collect();
        let mut error = Error::new(first.code, all.join("; "));
        error.hint = first.hint.clone();
        return Err(error);
    }
    if made.samples.is_empty() {
        return Err(error!(
            BadData,
            "no record of {} can be trained on: {}",
            path.display(),
            list(&made.skipped)
        )
        .hint("see --truncate, --seq-len and --train-on; `amv-train data` shows what is learned of each record"));
    }
    let report = Report::new(path.display().to_string(), records, &made);
    Ok((made, report))
}

/// A model that never learns an end writes on until it is cut off.
fn no_turn_end(ends: &[String]) -> String {
    format!(
        "no turn is learned with its end ({}), so the model will not learn to stop: move the template's {{% endgeneration %}} behind the end of the turn, choose a template that writes one (--chat-template chatml), or leave --eos at auto; `amv-train data` shows what is learned",
        ends.join(" or ")
    )
}

/// Warns of what was left out, or refuses it with `--strict`.
fn tell(
    report: &Report,
    options: &TrainOptions,
    warn: &dyn Fn(&'static str, String),
) -> Result<()> {
    let count = report.skipped.len();
    if count > 0 {
        let what = format!(
            "{count} of {} records are left out: {}",
            count + report.records,
            list(&report.skipped)
        );
        if options.strict {
            return Err(error!(BadData, "{what}")
                .hint("correct them, or leave --strict out to train on the rest"));
        }
        warn("SKIPPED", what);
    }
    if report.truncated > 0 {
        warn(
            "TRUNCATED",
            format!(
                "{} of {} records were too long and lost a part; see --seq-len and --truncate",
                report.truncated, report.records
            ),
        );
    }
    if let Some(first) = report.passed_over.first() {
        let count = report.passed_over.len();
        warn(
            "NO_DATA",
            format!(
                "{count} files of {} hold no training data, {first} first",
                report.path
            ),
        );
    }
    Ok(())
}

/// Tokens of the longest sample; 0 where there is none.
pub fn longest(samples: &[Sample]) -> usize {
    let lengths = samples.iter().map(|sample| sample.ids.len());
    lengths.max().unwrap_or(0)
}
