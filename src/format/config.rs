//! A model's hyperparameters, read the same way from a Hugging Face `config.json` and from GGUF metadata.

use std::path::Path;

use serde_json::{Map, Value};

use crate::bail;
use crate::error::{Error, Result};
use crate::format::gguf::Metadata;

/// Hyperparameters by two names: the key of `config.json` and that of GGUF, without the architecture's prefix.
#[derive(Clone)]
pub enum Config {
    HuggingFace(Map<String, Value>),
    Gguf {
        architecture: String,
        metadata: Metadata,
    },
}

/// One hyperparameter: its names in the two kinds of file; an empty name means that kind does not carry it.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub hf: &'static str,
    pub gguf: &'static str,
}

/// Shorthand for a [`Key`].
pub const fn key(hf: &'static str, gguf: &'static str) -> Key {
    Key { hf, gguf }
}

/// What a file says of a key.
enum Found {
    Absent,
    Null,
    Number(f64),
    Other,
}

impl Config {
    /// Reads `config.json` of the directory `dir`.
    pub fn from_dir(dir: &Path) -> Result<Config> {
        let path = dir.join("config.json");
        let text = std::fs::read(&path).map_err(|cause| {
            Error::file("read", &path, &cause)
                .hint("a model directory holds config.json, model.safetensors and tokenizer.json")
        })?;
        match serde_json::from_slice(&text) {
            Ok(Value::Object(map)) => Ok(Config::HuggingFace(map)),
            Ok(_) => bail!(BadModel, "{} is not a JSON object", path.display()),
            Err(cause) => bail!(BadModel, "{} is not JSON: {cause}", path.display()),
        }
    }

    pub fn from_gguf(metadata: &Metadata) -> Result<Config> {
        match metadata.string("general.architecture") {
            Some(architecture) => Ok(Config::Gguf {
                architecture: architecture.to_owned(),
                metadata: metadata.clone(),
            }),
            None => bail!(BadModel, "the GGUF file has no general.architecture"),
        }
    }

    /// `model_type` of config.json or `general.architecture` of GGUF.
    pub fn architecture(&self) -> Option<&str> {
        match self {
            Config::HuggingFace(map) => map.get("model_type")?.as_str(),
            Config::Gguf { architecture, .. } => Some(architecture),
        }
    }

    /// The part `name` of a config.json, e.g. its rope parameters; `None` for GGUF and when it is not an object.
    pub fn section(&self, name: &str) -> Option<Config> {
        match self {
            Config::HuggingFace(map) => {
                Some(Config::HuggingFace(map.get(name)?.as_object()?.clone()))
            }
            Config::Gguf { .. } => None,
        }
    }

    /// A whole number that must be there, between 1 and 2^31.
    pub fn count(&self, key: Key) -> Result<usize> {
        match self.find(key) {
            Found::Number(number)
                if number.fract() == 0.0 && (1.0..=2_147_483_648.0).contains(&number) =>
            {
                Ok(number as usize)
            }
            Found::Number(number) => bail!(BadModel, "{} is {number}", self.name(key)),
            _ => bail!(
                BadModel,
                "the model's configuration has no {}",
                self.name(key)
            ),
        }
    }

    /// A whole number; `default` when it is absent or null.
    pub fn count_or(&self, key: Key, default: usize) -> Result<usize> {
        match self.find(key) {
            Found::Absent | Found::Null => Ok(default),
            _ => self.count(key),
        }
    }

    /// A number: `default` when absent, none when null or zero.
    pub fn number_or(&self, key: Key, default: Option<f64>) -> Result<Option<f64>> {
        match self.find(key) {
            Found::Absent => Ok(default),
            Found::Null => Ok(None),
            Found::Number(number) if number.is_finite() && number >= 0.0 => {
                Ok((number > 0.0).then_some(number))
            }
            Found::Number(number) => bail!(BadModel, "{} is {number}", self.name(key)),
            Found::Other => bail!(BadModel, "{} is not a number", self.name(key)),
        }
    }

    /// A number that must be there and be positive.
    pub fn number(&self, key: Key) -> Result<f64> {
        match self.number_or(key, None)? {
            Some(number) => Ok(number),
            None => bail!(
                BadModel,
                "the model's configuration has no {} above 0",
                self.name(key)
            ),
        }
    }

    pub fn text(&self, key: Key) -> Option<&str> {
        match self {
            Config::HuggingFace(map) => map.get(key.hf)?.as_str(),
            Config::Gguf { metadata, .. } => metadata.string(&self.gguf_name(key)),
        }
    }

    pub fn flag(&self, key: Key) -> Option<bool> {
        match self {
            Config::HuggingFace(map) => map.get(key.hf)?.as_bool(),
            Config::Gguf { metadata, .. } => metadata.boolean(&self.gguf_name(key)),
        }
    }

    /// A list of numbers of a config.json.
    pub fn numbers(&self, name: &str) -> Option<Vec<f32>> {
        match self {
            Config::HuggingFace(map) => {
                let list = map.get(name)?.as_array()?;
                list.iter()
                    .map(|value| value.as_f64().map(|value| value as f32))
                    .collect()
            }
            Config::Gguf { .. } => None,
        }
    }

    /// A list of words of a config.json.
    pub fn texts(&self, name: &str) -> Option<Vec<&str>> {
        match self {
            Config::HuggingFace(map) => map
                .get(name)?
                .as_array()?
                .iter()
                .map(Value::as_str)
                .collect(),
            Config::Gguf { .. } => None,
        }
    }

    pub fn is_gguf(&self) -> bool {
        matches!(self, Config::Gguf { .. })
    }

    fn find(&self, key: Key) -> Found {
        match self {
            Config::HuggingFace(map) => match map.get(key.hf) {
                None => Found::Absent,
                Some(Value::Null) => Found::Null,
                Some(value) => value.as_f64().map_or(Found::Other, Found::Number),
            },
            Config::Gguf { metadata, .. } => {
                let name = self.gguf_name(key);
                // Per-layer lists (head_count_kv) are understood when all layers agree.
                let uniform = || {
                    let list = metadata.integers(&name)?;
                    let first = *list.first()?;
                    list.iter()
                        .all(|value| *value == first)
                        .then_some(first as f64)
                };
                let number = metadata
                    .integer(&name)
                    .map(|value| value as f64)
                    .or_else(|| metadata.float(&name));
                match number.or_else(uniform) {
                    Some(number) => Found::Number(number),
                    None if metadata.get(&name).is_some() => Found::Other,
                    None => Found::Absent,
                }
            }
        }
    }

    fn gguf_name(&self, key: Key) -> String {
        let architecture = self.architecture().unwrap_or_default();
        format!("{architecture}.{}", key.gguf)
    }

    fn name(&self, key: Key) -> String {
        match self {
            Config::HuggingFace(_) => key.hf.to_owned(),
            Config::Gguf { .. } => self.gguf_name(key),
        }
    }
}
