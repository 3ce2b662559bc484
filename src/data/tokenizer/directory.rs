//! The tokenizer of a Hugging Face directory: tokenizer.json as it is, and the settings in the files beside it.
//!
//! Truncation and padding that a tokenizer.json may carry are switched off, as transformers does.

use std::path::Path;

use serde_json::{Map, Value};
use tokenizers::AddedToken;

use super::{Tokenizer, guarded, words};
use crate::bail;
use crate::error::{Code, Error, Result};
use crate::format::digest;

impl Tokenizer {
    /// Reads tokenizer.json and, where they exist, tokenizer_config.json, special_tokens_map.json,
    /// generation_config.json, config.json and chat_template.jinja.
    ///
    /// BOS starts a document when `add_bos_token` says so; without that key when the post-processor puts it there,
    /// and without a post-processor when the class is Llama's or Gemma's, whose default it is.
    pub fn from_dir(directory: &Path) -> Result<Self> {
        let path = directory.join("tokenizer.json");
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                return Err(missing(directory));
            }
            Err(cause) => return Err(Error::file("read", &path, &cause)),
        };
        let mut inner = guarded(|| tokenizers::Tokenizer::from_bytes(&bytes))
            .map_err(|cause| Error::new(Code::BadModel, format!("{}: {cause}", path.display())))?;
        let broken = |cause| Error::new(Code::BadModel, format!("{}: {cause}", path.display()));

        let settings = Settings::read(directory)?;
        guarded(|| {
            inner.with_truncation(None)?.with_padding(None);
            for token in settings.added(&inner) {
                inner.add_tokens([token])?;
            }
            Ok(())
        })
        .map_err(broken)?;

        let bos = settings.special("bos", &inner);
        let prefix = match settings.adds_bos(&inner) {
            Some(true) => bos.into_iter().collect(),
            Some(false) => Vec::new(),
            None => guarded(|| prefix(&inner)).map_err(broken)?,
        };
        words::split(&mut inner)?;
        let vocab_size = inner
            .get_vocab(true)
            .into_values()
            .max()
            .map_or(0, |id| id as usize + 1);
        Ok(Tokenizer {
            vocab_size,
            bos,
            eos: settings.special("eos", &inner),
            padding: settings.special("pad", &inner),
            prefix,
            inner,
            chat_template: settings.chat_template,
            sha256: digest::bytes(&bytes),
        })
    }
}

/// The ids that the post-processor puts before a text.
fn prefix(inner: &tokenizers::Tokenizer) -> tokenizers::Result<Vec<u32>> {
    let encoding = inner.encode_fast("a", true)?;
    let special = encoding.get_special_tokens_mask().iter();
    let count = special.take_while(|&&mask| mask == 1).count();
    Ok(encoding.get_ids()[..count].to_vec())
}

/// What to say about a directory without tokenizer.json.
fn missing(directory: &Path) -> Error {
    let others = ["tokenizer.model", "vocab.json", "tekken.json", "vocab.txt"];
    let found = others
        .into_iter()
        .find(|name| directory.join(name).exists());
    match found {
        Some(name) => crate::error!(
            NotFound,
            "{} has {name} but no tokenizer.json, the only form that is read",
            directory.display()
        )
        .hint(
            "make one with Python: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR); or use a GGUF file of the model",
        ),
        None => crate::error!(NotFound, "no tokenizer.json in {}", directory.display())
            .hint("copy tokenizer.json and tokenizer_config.json of the model there; they belong to every download"),
    }
}

/// What the files beside tokenizer.json say.
struct Settings {
    tokenizer: Map<String, Value>,
    specials: Map<String, Value>,
    generation: Map<String, Value>,
    model: Map<String, Value>,
    chat_template: Option<String>,
}

impl Settings {
    fn read(directory: &Path) -> Result<Self> {
        let tokenizer = object(&directory.join("tokenizer_config.json"))?;
        let template = directory.join("chat_template.jinja");
        let chat_template = match text(&template)? {
            Some(text) => Some(text),
            None => default_template(&tokenizer),
        };
        Ok(Settings {
            tokenizer,
            specials: object(&directory.join("special_tokens_map.json"))?,
            generation: object(&directory.join("generation_config.json"))?,
            model: object(&directory.join("config.json"))?,
            chat_template,
        })
    }

    /// The id of a role (bos, eos, pad). A token named by the tokenizer's settings goes before an id of the model's;
    /// null there means that there is none.
    fn special(&self, role: &str, inner: &tokenizers::Tokenizer) -> Option<u32> {
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
    fn adds_bos(&self, inner: &tokenizers::Tokenizer) -> Option<bool> {
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
    fn added(&self, inner: &tokenizers::Tokenizer) -> Vec<AddedToken> {
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

/// One template, or a list of named ones of which `default` counts.
fn default_template(settings: &Map<String, Value>) -> Option<String> {
    let template = settings.get("chat_template")?;
    let named = |list: &Vec<Value>| {
        let default = list.iter().find(|item| item["name"] == "default")?;
        default["template"].as_str().map(str::to_string)
    };
    match template {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => named(list),
        _ => None,
    }
}

/// The object in a JSON file; an absent file is an empty one.
fn object(path: &Path) -> Result<Map<String, Value>> {
    let Some(text) = text(path)? else {
        return Ok(Map::new());
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => bail!(BadModel, "{} holds no object", path.display()),
        Err(cause) => bail!(BadModel, "{}: {cause}", path.display()),
    }
}

fn text(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::file("read", path, &cause)),
    }
}
