//! What the fields of one object make of it. The names are those of TRL, LLaMA-Factory and the data sets on the hub.

use serde_json::{Map, Value};

use super::{alpaca, chat};
use crate::data::Content;

/// A record and the name of its format.
#[derive(Debug)]
pub struct Shaped {
    pub content: Content,
    pub format: &'static str,
}

/// Why an object is not a record to train on.
#[derive(Debug, PartialEq)]
pub enum Fault {
    /// It is a record, with nothing in it.
    Empty(String),
    /// It is none.
    Bad(String),
}

pub type Read<T> = std::result::Result<T, Fault>;

/// Columns that a table may name.
pub const COLUMNS: [&str; 11] = [
    "text",
    "prompt",
    "completion",
    "messages",
    "conversations",
    "instruction",
    "input",
    "output",
    "system",
    "history",
    "tools",
];

pub fn shape(value: Value) -> Read<Shaped> {
    let Value::Object(mut fields) = value else {
        return bad("not an object");
    };
    for preference in ["chosen", "rejected"] {
        if fields.contains_key(preference) {
            return bad(&format!(
                "{preference:?} belongs to preference training, which `train` does not do"
            ));
        }
    }
    let (content, format) = if fields.contains_key("messages") {
        (chat::messages(fields, "messages")?, "messages")
    } else if fields.contains_key("conversations") {
        (chat::sharegpt(fields)?, "conversations")
    } else if fields.contains_key("prompt") && fields.contains_key("completion") {
        prompt_and_completion(fields)?
    } else if fields.contains_key("instruction") && fields.contains_key("output") {
        (alpaca::chat(fields)?, "instruction and output")
    } else if let Some(text) = fields.remove("text") {
        (
            Content::Text(filled(string(text, "text")?, "text")?),
            "text",
        )
    } else {
        return bad(&missing(&fields));
    };
    Ok(Shaped { content, format })
}

fn prompt_and_completion(mut fields: Map<String, Value>) -> Read<(Content, &'static str)> {
    let prompt = fields.remove("prompt").unwrap_or_default();
    let completion = fields.remove("completion").unwrap_or_default();
    match (prompt, completion) {
        (Value::String(prompt), Value::String(completion)) => {
            let completion = filled(completion, "completion")?;
            Ok((
                Content::Completion { prompt, completion },
                "prompt and completion",
            ))
        }
        (Value::Array(mut prompt), Value::Array(completion)) => {
            let first = prompt.len();
            prompt.extend(completion);
            fields.insert("messages".to_owned(), prompt.into());
            let mut content = chat::messages(fields, "prompt")?;
            if let Content::Chat(conversation) = &mut content {
                conversation.first_completion = first;
            }
            Ok((content, "prompt and completion messages"))
        }
        _ => bad("\"prompt\" and \"completion\" are neither two strings nor two lists of messages"),
    }
}

fn missing(fields: &Map<String, Value>) -> String {
    const ONES: &str = "\"text\", \"prompt\" and \"completion\", \"messages\", \"instruction\" and \"output\", or \"conversations\"";
    let found: Vec<String> = fields
        .keys()
        .take(4)
        .map(|key| format!("{key:?}"))
        .collect();
    match found.is_empty() {
        true => format!("an empty object, without {ONES}"),
        false => format!("only {}, without {ONES}", found.join(", ")),
    }
}

pub fn bad<T>(reason: &str) -> Read<T> {
    Err(Fault::Bad(reason.to_owned()))
}

pub fn string(value: Value, name: &str) -> Read<String> {
    match value {
        Value::String(text) => Ok(text),
        _ => bad(&format!("{name:?} is not a string")),
    }
}

/// The text, unless there is nothing in it.
pub fn filled(text: String, name: &str) -> Read<String> {
    match text.trim().is_empty() {
        true => Err(Fault::Empty(format!("{name:?} is empty"))),
        false => Ok(text),
    }
}
