//! A trained adapter in the formats of those who load it: PEFT, llama.cpp, and the sidecar that says where it comes from.

mod gguf;
pub mod merge;
mod output;
mod peft;
mod sidecar;
mod targets;

pub use output::Output;
pub use sidecar::{BaseModel, Tokenizer};

use targets::TargetModules;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::format::adapter::{Base, RowOrder};
use crate::format::{Staging, atomic, digest};
use crate::lora::{Adapter, LoraConfig, Pair};
use crate::{bail, error};

/// Everything that is written about a finished run.
pub struct Export<'a> {
    pub adapter: &'a Adapter,
    pub base: &'a Base,
    pub model: &'a BaseModel,
    pub tokenizer: &'a Tokenizer,
    /// Every option as used, for the sidecar.
    pub training: Value,
    /// `steps`, `epochs` and `final_loss`, for the sidecar.
    pub result: Value,
}

/// One file that has been written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub path: PathBuf,
    pub bytes: u64,
    pub sha256: String,
}

/// Writes the adapter to `output` and returns the files, the sidecar last. A DoRA adapter has no GGUF file.
///
/// A directory that is missing is made. Each file is whole or absent, and none takes its place before all are complete
/// ([`Staging::publish`] says what a failed rename leaves). The sidecar is the last to move and holds the hashes of the
/// others, so a set that was only half replaced can be told.
/// Errors: `NON_FINITE` for values that are not numbers, `BAD_ADAPTER` for what a format cannot hold, and those of the
/// file system.
pub fn write(output: &Output, export: &Export) -> Result<Vec<Written>> {
    let pairs = export.adapter.pairs()?;
    check(&pairs, export.adapter.config())?;
    let is_new = make_directory(output)?;
    let written = stage(output, export, &pairs);
    if is_new && written.is_err() {
        // Fails, as it should, when something is in it.
        let _ = fs::remove_dir(output.directory());
    }
    written
}

/// Writes llama.cpp's adapter alone to `path`. Not for DoRA.
pub fn write_gguf(path: &Path, export: &Export) -> Result<()> {
    let pairs = export.adapter.pairs()?;
    check(&pairs, export.adapter.config())?;
    gguf::write(path, export, in_order(export.base, &pairs, RowOrder::Gguf)?)
}

/// Finds out whether [`write`] will have a place to write to, so that no training is lost for want of one.
pub fn try_output(output: &Output) -> Result<()> {
    let is_new = make_directory(output)?;
    let tried = try_names(output);
    if is_new {
        let _ = fs::remove_dir(output.directory());
    }
    tried.and_then(|()| Staging::refuse_directories(&output.files()))
}

/// Writes an empty file under every name, of which one may be too long.
fn try_names(output: &Output) -> Result<()> {
    let staging = Staging::inside(&output.directory())?;
    output
        .files()
        .iter()
        .try_for_each(|place| atomic::write_bytes(&staging.path(place), b""))
}

/// True when the output's directory was not there.
fn make_directory(output: &Output) -> Result<bool> {
    let directory = output.directory();
    let is_new = !directory.exists();
    fs::create_dir_all(&directory).map_err(|cause| Error::file("make", &directory, &cause))?;
    Ok(is_new)
}

fn stage(output: &Output, export: &Export, pairs: &BTreeMap<String, Pair>) -> Result<Vec<Written>> {
    let config = export.adapter.config();
    let targets = TargetModules::of(pairs, &export.adapter.layers());
    let staging = Staging::inside(&output.directory())?;
    let mut written = Vec::new();
    let mut record = |place: PathBuf| -> Result<()> {
        let staged = staging.path(&place);
        let about = fs::metadata(&staged).map_err(|cause| Error::file("read", &staged, &cause))?;
        written.push(Written {
            bytes: about.len(),
            sha256: digest::file(&staged)?,
            path: place,
        });
        Ok(())
    };

    let place = output.peft();
    let ordered = in_order(export.base, pairs, RowOrder::HuggingFace)?;
    peft::write_tensors(&staging.path(&place), ordered)?;
    record(place)?;
    if let Some(place) = output.peft_config() {
        let text = pretty(&peft::config(config, &targets, &export.model.name));
        atomic::write_bytes(&staging.path(&place), &text)?;
        record(place)?;
    }
    // llama.cpp has no DoRA and would reject the file.
    if !config.dora {
        let place = output.gguf();
        let ordered = in_order(export.base, pairs, RowOrder::Gguf)?;
        gguf::write(&staging.path(&place), export, ordered)?;
        record(place)?;
    }
    let place = output.sidecar();
    let text = pretty(&sidecar::build(export, &targets, &written));
    atomic::write_bytes(&staging.path(&place), &text)?;
    written.push(Written {
        bytes: text.len() as u64,
        sha256: digest::bytes(&text),
        path: place,
    });
    let places: Vec<PathBuf> = written.iter().map(|file| file.path.clone()).collect();
    staging.publish(&places)?;
    if config.dora {
        remove_old(&output.gguf())?;
    }
    Ok(written)
}

/// Removes a file that the adapter replaced had and this one has not.
fn remove_old(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            Err(Error::file("remove", path, &cause))
        }
        _ => Ok(()),
    }
}

/// Refuses values that no consumer could use.
fn check(pairs: &BTreeMap<String, Pair>, config: &LoraConfig) -> Result<()> {
    if pairs.is_empty() {
        bail!(Internal, "the adapter has no layers");
    }
    for (path, pair) in pairs {
        let alpha = config.alpha_of(path);
        // llama.cpp reads alpha 0 as "not set" and multiplies by 1.
        if !alpha.is_finite() || alpha == 0.0 {
            return Err(error!(
                Usage,
                "alpha {alpha} cannot be written: llama.cpp takes 0 for a scale of 1"
            )
            .hint("choose an alpha above 0, such as twice the rank"));
        }
        pair.check_finite(path)?;
    }
    Ok(())
}

fn in_order(
    base: &Base,
    pairs: &BTreeMap<String, Pair>,
    order: RowOrder,
) -> Result<BTreeMap<String, Pair>> {
    let convert = |(path, pair): (&String, &Pair)| {
        let pair = base.reorder_pair(path, pair.clone(), base.row_order(), order)?;
        Ok((path.clone(), pair))
    };
    pairs.iter().map(convert).collect()
}

/// Indented JSON that ends with a newline.
fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}

/// `value` with the digits that its f32 needs, not those of the nearest f64: 0.1 stays 0.1.
fn number(value: f32) -> Value {
    let short = value.to_string().parse::<f64>();
    short.unwrap_or_else(|_| value.into()).into()
}
