//! Alpaca records as conversations: `instruction`, `input`, `output`, and `system` and `history` where there are any.
//! The user says the instruction and, on a line of its own, the input. Source: hiyouga/LLaMA-Factory, its data README.

use serde_json::{Map, Value};

use super::chat::message;
use super::shape::{Read, bad, filled, string};
use crate::data::{Content, Conversation};

pub fn chat(mut fields: Map<String, Value>) -> Read<Content> {
    let mut text = |name: &str| match fields.remove(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(value) => string(value, name),
    };
    let (system, instruction) = (text("system")?, text("instruction")?);
    let (input, output) = (text("input")?, filled(text("output")?, "output")?);
    let mut messages = Vec::new();
    if !system.is_empty() {
        messages.push(message("system", system));
    }
    match fields.remove("history") {
        None | Some(Value::Null) => (),
        Some(Value::Array(turns)) => {
            for turn in turns {
                let Ok([user, assistant]) = serde_json::from_value::<[String; 2]>(turn) else {
                    return bad("\"history\" is not a list of pairs of strings");
                };
                messages.push(message("user", user));
                messages.push(message("assistant", assistant));
            }
        }
        Some(_) => return bad("\"history\" is not a list of pairs of strings"),
    }
    let asked = match (instruction.is_empty(), input.is_empty()) {
        (_, true) => instruction,
        (true, false) => input,
        (false, false) => format!("{instruction}\n{input}"),
    };
    messages.push(message("user", asked));
    messages.push(message("assistant", output));
    Ok(Content::Chat(Conversation::new(messages)))
}
