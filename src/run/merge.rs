//! `merge`: a base model with a trained adapter in its weights, as a model that everyone can load.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error;
use crate::error::{Error, Result};
use crate::export::merge::{Piece, write_gguf, write_safetensors};
use crate::format::adapter::SavedAdapter;
use crate::format::{Checkpoint, Staging, atomic, names};
use crate::quant::Format;
use crate::run::Package;
use crate::run::adapted::{Adapted, with_threads};
use crate::train::{BUILT_IN, Event, Listener};
use crate::{bail, models};

/// Options of `merge`; absent ones have the defaults of the option table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MergeOptions {
    pub model: String,
    pub adapter: String,
    pub output: String,
    #[serde(rename = "type")]
    pub format: MergeType,
    pub overwrite: bool,
    pub threads: usize,
}

impl Default for MergeOptions {
    fn default() -> Self {
        MergeOptions {
            model: BUILT_IN.to_owned(),
            adapter: String::new(),
            output: String::new(),
            format: MergeType::Own,
            overwrite: false,
            threads: 0,
        }
    }
}

/// What the merged weights are written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeType {
    Own,
    F32,
    F16,
    Bf16,
    #[serde(rename = "q8_0")]
    Q8,
    #[serde(rename = "q4_0")]
    Q4,
}

impl MergeType {
    fn format(self) -> Option<Format> {
        match self {
            MergeType::Own => None,
            MergeType::F32 => Some(Format::F32),
            MergeType::F16 => Some(Format::F16),
            MergeType::Bf16 => Some(Format::BF16),
            MergeType::Q8 => Some(Format::Q8_0),
            MergeType::Q4 => Some(Format::Q4_0),
        }
    }
}

/// What was written.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Merged {
    pub output: String,
    pub files: Vec<String>,
    /// Layers that the adapter was merged into.
    pub layers: usize,
    /// How many tensors there are of each type.
    pub types: BTreeMap<&'static str, usize>,
    pub duration_ms: u64,
}

/// Writes the merged model. Nothing is left behind by a failure.
pub fn merge(
    options: &MergeOptions,
    package: &Package,
    listener: &dyn Listener,
    stop: &AtomicBool,
) -> Result<Merged> {
    let started = Instant::now();
    let output = Path::new(&options.output);
    let format = options.format.format();
    with_threads("auto", options.threads, || {
        let adapter = Some(options.adapter.as_str());
        let adapted = Adapted::open(&options.model, adapter, package, listener)?;
        let Some(saved) = &adapted.saved else {
            bail!(Internal, "no adapter was read");
        };
        let checkpoint = &adapted.base.checkpoint;
        check_place(output, checkpoint, options.overwrite)?;
        let pieces = pieces(checkpoint, saved, format)?;
        warn_of_formats(&pieces, format, listener);
        let total = pieces.iter().map(|(_, piece)| piece.len()).sum();
        let mut done = 0;
        let mut each = |_| -> Result<()> {
            if stop.load(Ordering::Relaxed) {
                bail!(Aborted, "stopped before the model was written");
            }
            done += 1;
            let what = "merging".to_owned();
            listener.event(&Event::Progress { what, done, total });
            Ok(())
        };
        let files = match checkpoint.gguf() {
            Some(metadata) => {
                let all: Vec<Piece> = pieces.into_iter().flat_map(|(_, piece)| piece).collect();
                write_gguf(output, metadata, format, &all, &mut each)?;
                let files = vec![output.to_owned()];
                return Ok(merged(options, &files, &all, started));
            }
            None => write_directory(output, checkpoint, format, &pieces, &mut each)?,
        };
        let all: Vec<Piece> = pieces.into_iter().flat_map(|(_, piece)| piece).collect();
        Ok(merged(options, &files, &all, started))
    })
}

fn merged(options: &MergeOptions, files: &[PathBuf], pieces: &[Piece], started: Instant) -> Merged {
    let mut types = BTreeMap::new();
    for piece in pieces {
        *types.entry(piece.entry.format.name()).or_default() += 1;
    }
    Merged {
        output: options.output.clone(),
        files: files
            .iter()
            .map(|file| file.display().to_string())
            .collect(),
        layers: pieces.iter().filter(|piece| piece.is_merged()).count(),
        types,
        duration_ms: started.elapsed().as_millis() as u64,
    }
}

/// Refuses an output of another kind than the base, one that exists, and the base itself.
fn check_place(output: &Path, checkpoint: &Checkpoint, overwrite: bool) -> Result<()> {
    let shown = output.display();
    let is_gguf = output.extension().is_some_and(|ending| ending == "gguf");
    if is_gguf != checkpoint.gguf().is_some() {
        let (base, right) = match is_gguf {
            true => ("a Hugging Face directory", "a directory such as merged/"),
            false => ("a .gguf file", "a file such as merged.gguf"),
        };
        return Err(error!(
            UnsupportedFormat,
            "the base is {base}, so its merged model cannot be {shown}: configuration and tokenizer are not converted in this version"
        )
        .hint(format!("name {right}, or take the base in the other format")));
    }
    if !is_gguf
        && output
            .extension()
            .is_some_and(|ending| ending == "safetensors")
    {
        return Err(error!(
            Usage,
            "--output {shown} is a file; a merged model is a directory"
        )
        .hint("name a directory such as merged/"));
    }
    let same = |path: &Path| path.canonicalize().ok();
    let is_base = same(output).is_some()
        && (same(output) == same(checkpoint.path())
            || checkpoint
                .catalog()
                .paths()
                .iter()
                .any(|path| same(path) == same(output)));
    if is_base {
        bail!(
            Usage,
            "--output {shown} is the base model, which is never changed"
        );
    }
    let has_model = match is_gguf {
        true => output.exists(),
        false => output.join("config.json").exists(),
    };
    if has_model && !overwrite {
        return Err(error!(Usage, "{shown} exists already")
            .hint("choose another --output, or replace it with --overwrite"));
    }
    Ok(())
}

/// The tensors of each file of the base.
fn pieces<'a>(
    checkpoint: &'a Checkpoint,
    saved: &'a SavedAdapter,
    format: Option<Format>,
) -> Result<Vec<(&'a Path, Vec<Piece<'a>>)>> {
    let (family, _) = models::read(checkpoint.config())?;
    let catalog = checkpoint.catalog();
    let mut files: Vec<_> = catalog
        .paths()
        .into_iter()
        .map(|path| (path, Vec::new()))
        .collect();
    for tensor in catalog.tensors() {
        let name = match checkpoint.gguf() {
            Some(_) => names::to_hugging_face(family.name, &tensor.name),
            None => Some(tensor.name.clone()),
        };
        let path = name
            .as_deref()
            .and_then(|name| name.strip_suffix(".weight"));
        let weight = catalog.weight(&tensor.name)?;
        files[tensor.part()]
            .1
            .push(Piece::new(&tensor.name, path, weight, format, saved));
    }
    let count = files
        .iter()
        .flat_map(|(_, pieces)| pieces)
        .filter(|piece| piece.is_merged())
        .count();
    if count != saved.pairs.len() {
        bail!(
            BadAdapter,
            "the adapter has {} layers, of which this base has {count}",
            saved.pairs.len()
        );
    }
    Ok(files)
}

/// A tensor that could not stay or become what was asked for is written otherwise, and that is said.
fn warn_of_formats(files: &[(&Path, Vec<Piece>)], format: Option<Format>, listener: &dyn Listener) {
    let mut changed: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for piece in files.iter().flat_map(|(_, pieces)| pieces) {
        let wanted = format.unwrap_or(piece.format_before());
        if piece.entry.shape.len() > 1 && piece.entry.format != wanted {
            *changed
                .entry((wanted.name(), piece.entry.format.name()))
                .or_default() += 1;
        }
    }
    for ((wanted, written), count) in changed {
        listener.event(&Event::Warning {
            code: "OTHER_TYPE",
            message: format!(
                "{count} tensors are written as {written}, since they cannot be written as {wanted}"
            ),
        });
    }
}

/// Writes the directory of a merged model: weights in files as those of the base, and everything else beside them.
fn write_directory(
    output: &Path,
    checkpoint: &Checkpoint,
    format: Option<Format>,
    files: &[(&Path, Vec<Piece>)],
    each: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(output).map_err(|cause| Error::file("make", output, &cause))?;
    let staging = Staging::inside(output)?;
    let mut places = Vec::new();
    for (path, pieces) in files {
        let place = output.join(path.file_name().unwrap_or_default());
        write_safetensors(&staging.path(&place), pieces, each)?;
        places.push(place);
    }
    if files.len() > 1 {
        let place = output.join("model.safetensors.index.json");
        atomic::write_bytes(&staging.path(&place), &index(files))?;
        places.push(place);
    }
    for path in companions(checkpoint.path())? {
        let place = output.join(path.file_name().unwrap_or_default());
        let bytes = fs::read(&path).map_err(|cause| Error::file("read", &path, &cause))?;
        let bytes = match (place.ends_with("config.json"), format) {
            (true, Some(format)) => with_type(&bytes, format),
            _ => bytes,
        };
        atomic::write_bytes(&staging.path(&place), &bytes)?;
        places.push(place);
    }
    // The configuration last: a directory with one is a model.
    places.sort_by_key(|place| place.ends_with("config.json"));
    staging.publish(&places)?;
    Ok(places)
}

fn index(files: &[(&Path, Vec<Piece>)]) -> Vec<u8> {
    let mut map = BTreeMap::new();
    let mut size = 0;
    for (path, pieces) in files {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        for piece in pieces {
            map.insert(piece.entry.name.clone(), file.clone());
            size += piece.entry.bytes();
        }
    }
    let value = json!({ "metadata": { "total_size": size }, "weight_map": map });
    format!("{value:#}\n").into_bytes()
}

/// Configuration, tokenizer and templates beside the weights of a Hugging Face directory.
fn companions(directory: &Path) -> Result<Vec<PathBuf>> {
    let failed = |cause| Error::file("read", directory, &cause);
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let ending = path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_companion = ["json", "txt", "model", "jinja"].contains(&&*ending);
        let is_weights = name.ends_with(".index.json") || name.starts_with("adapter_");
        if path.is_file() && is_companion && !is_weights {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The configuration with the type that the weights now have; transformers loads them in it.
fn with_type(config: &[u8], format: Format) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(config) else {
        return config.to_vec();
    };
    let name = match format {
        Format::F16 => "float16",
        Format::BF16 => "bfloat16",
        _ => "float32",
    };
    for key in ["torch_dtype", "dtype"] {
        if value.get(key).is_some() {
            value[key] = name.into();
        }
    }
    format!("{value:#}\n").into_bytes()
}
