//! The chat templates that come with a tokenizer, by name: usually one, `default`; some models add `tool_use` or `rag`.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::format::gguf::Metadata;

/// Texts of Jinja templates by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Templates(Vec<(String, String)>);

impl Templates {
    /// The template called `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut pairs = self.0.iter();
        pairs
            .find(|(other, _)| other == name)
            .map(|(_, text)| text.as_str())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Of a directory: chat_template.jinja, then chat_template.json, then `chat_template` of tokenizer_config.json
    /// (a text, or a list of named ones); additional_chat_templates/NAME.jinja adds to each of them.
    pub(super) fn read(directory: &Path, settings: &Map<String, Value>) -> Result<Templates> {
        let mut templates = Templates::default();
        for (name, text) in additional(&directory.join("additional_chat_templates"))? {
            templates.add(&name, &text);
        }
        if let Some(text) = super::settings::text(&directory.join("chat_template.jinja"))? {
            templates.add("default", &text);
        }
        let file = super::settings::object(&directory.join("chat_template.json"))?;
        for settings in [&file, settings] {
            match settings.get("chat_template") {
                Some(Value::String(text)) => templates.add("default", text),
                Some(Value::Array(list)) => {
                    for item in list {
                        if let (Some(name), Some(text)) =
                            (item["name"].as_str(), item["template"].as_str())
                        {
                            templates.add(name, text);
                        }
                    }
                }
                _ => (),
            }
        }
        Ok(templates)
    }

    /// Of a GGUF file: `tokenizer.chat_template`, and one `tokenizer.chat_template.NAME` for each further one.
    pub(super) fn of_gguf(metadata: &Metadata) -> Templates {
        const KEY: &str = "tokenizer.chat_template";
        let mut templates = Templates::default();
        if let Some(text) = metadata.string(KEY) {
            templates.add("default", text);
        }
        for (key, _) in metadata.iter() {
            let name = key
                .strip_prefix(KEY)
                .and_then(|rest| rest.strip_prefix('.'));
            if let (Some(name), Some(text)) = (name, metadata.string(key)) {
                templates.add(name, text);
            }
        }
        templates
    }

    /// The first of a name stays.
    fn add(&mut self, name: &str, text: &str) {
        if self.get(name).is_none() {
            self.0.push((name.to_owned(), text.to_owned()));
        }
    }
}

/// Names and texts of the `.jinja` files of a folder that may be absent.
fn additional(folder: &Path) -> Result<Vec<(String, String)>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(Error::file("read", folder, &cause)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry
            .map_err(|cause| Error::file("read", folder, &cause))?
            .path();
        let name = path.file_stem().map(|name| name.to_string_lossy().into());
        if path
            .extension()
            .is_some_and(|extension| extension == "jinja")
            && let (Some(name), Some(text)) = (name, super::settings::text(&path)?)
        {
            found.push((name, text));
        }
    }
    Ok(found)
}
