//! Settings around a tokenizer.json: tokenizer_config.json, special_tokens_map.json, generation_config.json, config.json and
//! the chat templates. Each may be absent.

use std::path::Path;

use serde_json::{Map, Value};
use tokenizers::AddedToken;

use super::Templates;
use crate::bail;
use crate::error::{Error, Result};

/// What the files beside tokenizer.json say.
pub struct Settings {
    tokenizer: Map<String, Value>,
    specials: Map<String, Value>,
    generation: Map<String, Value>,
    model: Map<String, Value>,
    pub templates: Templates,
}

impl Settings {
    pub fn read(directory: &Path) -> Result<Self> {
        let tokenizer = object(&directory.join("tokenizer_config.json"))?;
        Ok(Settings {
            templates: Templates::read(directory, &tokenizer)?,
            tokenizer,
            specials: object(&directory.join("special_tokens_map.json"))?,
            generation: object(&directory.join("generation_config.json"))?,
            model: object(&directory.join("config.json"))?,
        })
    }

    /// Texts of the special tokens by their names in templates; null and absent ones are not among them.
    pub fn named(&self) -> Vec<(String, String)> {
        let text = |key: &str| {
            let mut settings = [&self.tokenizer, &self.specials].into_iter();
            settings
                .find_map(|settings| settings.get(key))
                .and_then(content)
        };
        let roles = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];
        let keys = roles.map(|role| format!("{role}_token"));
        let named = keys.into_iter();
        named
            .filter_map(|key| text(&key).map(|text| (key.clone(), text.to_owned())))
            .collect()
    }

    /// The id of a role (bos, eos, pad). A token named by the tokenizer's settings goes before an id of the model's;
    /// null there means that there is none.
    pub fn special(&self, role: &str, inner: &tokenizers::Tokenizer) -> Option<u32> {
        let key = format!("{role}_token");
        for settings in [&self.tokenizer, &self.specials] {
            if let Some(value) = settings.get(&key) {
                return content(value).and_then(|text| inner.token_to_id(text));
            }
        }
        let key = format!("{role}_token_id");
        let id = [&self.generation, &self.model]
            .into_iter()
            .find_map(|settings| settings.get(&key))?;
        // Some models list several ends; the first is the one of a document.
        let id = id.get(0).unwrap_or(id).as_u64()?;
        u32::try_from(id)
            .ok()
            .filter(|&id| inner.id_to_token(id).is_some())
    }

    /// Whether BOS is added; none when the post-processor decides.
    pub fn adds_bos(&self, inner: &tokenizers::Tokenizer) -> Option<bool> {
        if let Some(said) = self.tokenizer.get("add_bos_token").and_then(Value::as_bool) {
            return Some(said);
        }
        if inner.get_post_processor().is_some() {
            return None;
        }
        let class = self.tokenizer.get("tokenizer_class")?.as_str()?;
        let adds = ["LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer"];
        Some(adds.contains(&class.trim_end_matches("Fast")))
    }

    /// Tokens that the settings add to tokenizer.json or describe otherwise, in order of their ids, and named special
    /// tokens that are in the vocabulary but not marked yet.
    pub fn added(&self, inner: &tokenizers::Tokenizer) -> Vec<AddedToken> {
        let known = inner.get_added_tokens_decoder();
        let mut tokens: Vec<(u64, AddedToken)> = Vec::new();
        if let Some(Value::Object(decoder)) = self.tokenizer.get("added_tokens_decoder") {
            for (id, token) in decoder {
                if let (Ok(id), Ok(token)) = (id.parse(), serde_json::from_value(token.clone())) {
                    tokens.push((id, token));
                }
            }
        }
        tokens.sort_by_key(|(id, _)| *id);
        let mut tokens: Vec<AddedToken> = tokens.into_iter().map(|(_, token)| token).collect();
        for role in ["bos", "eos", "unk", "pad"] {
            let key = format!("{role}_token");
            let named = self.tokenizer.get(&key).or_else(|| self.specials.get(&key));
            if let Some(text) = named.and_then(content)
                && inner.token_to_id(text).is_some()
                && !tokens.iter().any(|token| token.content == text)
                && !known.values().any(|token| token.content == text)
            {
                tokens.push(AddedToken::from(text, true));
            }
        }
        tokens.retain(|token| !known.values().any(|other| other == token));
        tokens
    }
}

/// A token is written as its text or as an object with its content.
fn content(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// The object in a JSON file; an absent file is an empty one.
pub(super) fn object(path: &Path) -> Result<Map<String, Value>> {
    let Some(text) = text(path)? else {
        return Ok(Map::new());
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => bail!(BadModel, "{} holds no object", path.display()),
        Err(cause) => bail!(BadModel, "{}: {cause}", path.display()),
    }
}

pub(super) fn text(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::file("read", path, &cause)),
    }
}
