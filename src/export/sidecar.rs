//! The sidecar: what the adapter is, which model and tokenizer it belongs to, and how it was trained.

use serde_json::{Map, Value, json};

use super::targets::TargetModules;
use super::{Export, Written, peft};

/// Which model the adapter belongs to.
#[derive(Debug, Clone)]
pub struct BaseModel {
    /// The name on the hub or the path, as the user gave it.
    pub name: String,
    /// `safetensors` or `gguf`: `Checkpoint::format_name`.
    pub format: String,
    /// `Checkpoint::sha256`.
    pub sha256: String,
}

impl BaseModel {
    /// The last part of the name, without the ending of a file.
    pub fn short_name(&self) -> &str {
        let name = self.name.trim_end_matches('/');
        let name = name.rsplit('/').next().unwrap_or(name);
        name.strip_suffix(".gguf").unwrap_or(name)
    }
}

/// Hashes of what turned text into tokens; none of a model without the part.
#[derive(Debug, Clone, Default)]
pub struct Tokenizer {
    pub sha256: Option<String>,
    pub chat_template_sha256: Option<String>,
}

/// The sidecar as JSON. `files`: the other files of the set.
pub fn build(export: &Export, targets: &TargetModules, files: &[Written]) -> Value {
    let file = |file: &Written| {
        let name = file.path.file_name().unwrap_or_default();
        let about = json!({"sha256": file.sha256, "bytes": file.bytes});
        (name.to_string_lossy().into_owned(), about)
    };
    let files: Map<String, Value> = files.iter().map(file).collect();
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    set("format", "amv-train-adapter".into());
    set("format_version", 1.into());
    set("task", "llm".into());
    set("target_ecosystem", "llamacpp".into());
    set("peft_type", "LORA".into());
    for (name, value) in peft::settings(export.adapter.config(), targets) {
        set(&name, value);
    }
    set("base_model_name_or_path", export.model.name.as_str().into());
    set(
        "base_model",
        json!({
            "architecture": export.base.architecture,
            "format": export.model.format,
            "sha256": export.model.sha256,
        }),
    );
    set(
        "tokenizer",
        json!({
            "sha256": export.tokenizer.sha256,
            "chat_template_sha256": export.tokenizer.chat_template_sha256,
        }),
    );
    set("training", export.training.clone());
    set("result", export.result.clone());
    set("files", files.into());
    set(
        "created_by",
        concat!("amv-train ", env!("CARGO_PKG_VERSION")).into(),
    );
    fields.into()
}
