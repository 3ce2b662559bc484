//! `export`: a trained adapter, whoever wrote it, in the formats of PEFT and llama.cpp.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bail;
use crate::error;
use crate::error::Result;
use crate::export::{self, BaseModel, Export, Output};
use crate::run::Package;
use crate::run::adapted::{Adapted, sidecar};
use crate::train::{BUILT_IN, Event, Listener};

/// Options of `export`; absent ones have the defaults of the option table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExportOptions {
    pub model: String,
    pub adapter: String,
    pub output: String,
    pub overwrite: bool,
}

impl Default for ExportOptions {
    fn default() -> Self {
        ExportOptions {
            model: BUILT_IN.to_owned(),
            adapter: String::new(),
            output: String::new(),
            overwrite: false,
        }
    }
}

/// What was written.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Exported {
    pub output: String,
    pub files: Vec<String>,
    /// Layers with an adapter.
    pub layers: usize,
}

/// Writes the adapter anew. What a format cannot hold is an error, and nothing is written; nor is it when `stop` is set in
/// time.
pub fn export(
    options: &ExportOptions,
    package: &Package,
    listener: &dyn Listener,
    stop: &AtomicBool,
) -> Result<Exported> {
    let place = Path::new(&options.output);
    let is_gguf = place.extension().is_some_and(|ending| ending == "gguf");
    let existing = match is_gguf {
        true => place.exists().then(|| place.to_owned()),
        false => Output::parse(place)?.existing().into_iter().next(),
    };
    if let Some(path) = existing
        && !options.overwrite
    {
        return Err(error!(Usage, "{} exists already", path.display())
            .hint("choose another --output, or replace it with --overwrite"));
    }
    let go_on = || match stop.load(Ordering::Relaxed) {
        true => Err(error!(Aborted, "stopped before the adapter was written")),
        false => Ok(()),
    };
    go_on()?;
    let adapted = Adapted::open(&options.model, Some(&options.adapter), package, listener)?;
    go_on()?;
    let Some(adapter) = adapted.adapter() else {
        bail!(Internal, "no adapter was read");
    };
    if adapter.config().dora {
        let merge = "merge the adapter into its base instead: amv-train merge";
        match is_gguf {
            true => {
                return Err(error!(
                    UnsupportedFormat,
                    "this is a DoRA adapter, which llama.cpp's adapters cannot hold"
                )
                .hint(merge));
            }
            false => listener.event(&Event::Warning {
                code: "NO_GGUF",
                message: format!("llama.cpp has no DoRA, so no .gguf adapter is written; {merge}"),
            }),
        }
    }
    // Offers the adapter every layer, so that the files name exactly those that have one.
    adapted.decoder(Some(adapter.clone()))?;
    go_on()?;
    let about = sidecar(Path::new(&options.adapter))?.map(|(_, about)| about);
    let of = |name: &str| {
        about
            .as_ref()
            .map_or(Value::Null, |about| about[name].clone())
    };
    let base = &adapted.base;
    let export = Export {
        adapter: &adapter,
        base: &adapted.adapter_base,
        model: &BaseModel {
            name: options.model.clone(),
            format: base.checkpoint.format_name().to_owned(),
            sha256: base.sha256()?,
        },
        tokenizer: &export::Tokenizer {
            sha256: Some(base.tokenizer.sha256().to_owned()),
            chat_template_sha256: of("tokenizer")["chat_template_sha256"]
                .as_str()
                .map(str::to_owned),
        },
        training: of("training"),
        result: of("result"),
    };
    go_on()?;
    let files = match is_gguf {
        true => {
            export::write_gguf(place, &export)?;
            vec![options.output.clone()]
        }
        false => {
            let written = export::write(&Output::parse(place)?, &export)?;
            written
                .iter()
                .map(|file| file.path.display().to_string())
                .collect()
        }
    };
    Ok(Exported {
        output: options.output.clone(),
        files,
        layers: adapter.pairs()?.len(),
    })
}
