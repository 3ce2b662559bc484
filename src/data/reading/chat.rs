//! Lists of messages, as OpenAI and TRL write them (`role`, `content`) and as ShareGPT does (`from`, `value`), made alike.

use serde_json::{Map, Value, json};

use super::shape::{Fault, Read, bad, string};
use crate::data::{Content, Conversation};

/// Synonyms of roles, by what templates call them.
const ROLES: [(&str, &[&str]); 4] = [
    ("system", &["system", "developer"]),
    ("user", &["user", "human", "prompter"]),
    (
        "assistant",
        &["assistant", "gpt", "model", "bot", "chatgpt", "bard"],
    ),
    (
        "tool",
        &[
            "tool",
            "function",
            "observation",
            "function_response",
            "tool_response",
            "ipython",
        ],
    ),
];

/// What a turn is called in which the assistant calls a function; its value is the call as JSON.
const CALL: &str = "function_call";

/// `fields` with a list of messages called `messages`; `name` is what the file calls it.
pub fn messages(mut fields: Map<String, Value>, name: &str) -> Read<Content> {
    let turns = list(fields.remove("messages"), name)?;
    conversation(fields, turns)
}

/// `fields` with `conversations`, and `system` and `tools` beside it.
pub fn sharegpt(mut fields: Map<String, Value>) -> Read<Content> {
    let mut turns = list(fields.remove("conversations"), "conversations")?;
    match fields.remove("system") {
        None | Some(Value::Null) => (),
        Some(system) => {
            let system = string(system, "system")?;
            if !system.is_empty() {
                turns.insert(0, json!({ "role": "system", "content": system }));
            }
        }
    }
    conversation(fields, turns)
}

pub fn message(role: &str, content: String) -> Map<String, Value> {
    let pairs = [("role", Value::from(role)), ("content", content.into())];
    pairs
        .map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .collect()
}

fn list(value: Option<Value>, name: &str) -> Read<Vec<Value>> {
    match value {
        Some(Value::Array(turns)) if turns.is_empty() => {
            Err(Fault::Empty(format!("{name:?} is empty")))
        }
        Some(Value::Array(turns)) => Ok(turns),
        _ => bad(&format!("{name:?} is not a list of messages")),
    }
}

fn conversation(mut fields: Map<String, Value>, turns: Vec<Value>) -> Read<Content> {
    let mut messages = Vec::with_capacity(turns.len());
    for (index, turn) in turns.into_iter().enumerate() {
        let turn = normal(turn).map_err(|fault| match fault {
            Fault::Bad(reason) => Fault::Bad(format!("message {}: {reason}", index + 1)),
            empty => empty,
        })?;
        messages.push(turn);
    }
    let mut conversation = Conversation::new(messages);
    conversation.tools = match fields.remove("tools") {
        None | Some(Value::Null) => None,
        Some(Value::Array(tools)) if tools.is_empty() => None,
        Some(Value::String(text)) if text.trim().is_empty() => None,
        Some(Value::String(text)) => match serde_json::from_str(&text) {
            Ok(tools @ Value::Array(_)) => Some(tools),
            _ => return bad("\"tools\" is a text that is not a JSON list"),
        },
        Some(tools @ Value::Array(_)) => Some(tools),
        Some(_) => return bad("\"tools\" is not a list"),
    };
    match fields.remove("chat_template_kwargs") {
        None | Some(Value::Null) => (),
        Some(Value::Object(variables)) => conversation.template_kwargs = variables,
        Some(_) => return bad("\"chat_template_kwargs\" is not an object"),
    }
    Ok(Content::Chat(conversation))
}

/// One message as [`Conversation::messages`] describes it.
fn normal(turn: Value) -> Read<Map<String, Value>> {
    let Value::Object(mut fields) = turn else {
        return bad("not an object");
    };
    let Some(role) = fields.remove("role").or_else(|| fields.remove("from")) else {
        return bad("no \"role\"");
    };
    let role = string(role, "role")?;
    let content = fields.remove("content").or_else(|| fields.remove("value"));
    let calls = match fields.remove("tool_calls") {
        None | Some(Value::Null) => None,
        Some(Value::Array(calls)) if calls.is_empty() => None,
        Some(Value::Array(calls)) => Some(calls),
        Some(_) => return bad("\"tool_calls\" is not a list"),
    };
    let (role, content, calls) = match (role.as_str(), content) {
        (CALL, Some(Value::String(text))) => match serde_json::from_str::<Value>(&text) {
            Ok(Value::Array(calls)) => ("assistant", Value::Null, Some(calls)),
            Ok(call @ Value::Object(_)) => ("assistant", Value::Null, Some(vec![call])),
            _ => return bad("a function call is not JSON"),
        },
        (CALL, _) => return bad("a function call is not a string of JSON"),
        (role, content) => (known_role(role)?, text_of(content)?, calls),
    };
    if content.is_null() && calls.is_none() {
        return bad("no \"content\"");
    }
    let mut made = Map::new();
    made.insert("role".to_owned(), role.into());
    made.insert("content".to_owned(), content);
    if let Some(calls) = calls {
        let calls: Vec<Value> = calls.into_iter().map(call).collect::<Read<_>>()?;
        made.insert("tool_calls".to_owned(), calls.into());
    }
    made.extend(fields);
    Ok(made)
}

fn known_role(role: &str) -> Read<&'static str> {
    let found = ROLES.iter().find(|(_, names)| names.contains(&role));
    match found {
        Some((role, _)) => Ok(role),
        None => bad(&format!(
            "role {role:?} is not known; use system, user, assistant or tool"
        )),
    }
}

/// Content as one string; a list of parts is put together when all of them are text.
fn text_of(content: Option<Value>) -> Read<Value> {
    let parts = match content {
        None | Some(Value::Null) => return Ok(Value::Null),
        Some(Value::String(text)) => return Ok(text.into()),
        Some(Value::Array(parts)) => parts,
        Some(_) => return bad("\"content\" is neither a string nor a list of parts"),
    };
    let mut text = String::new();
    for part in parts {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
        match (kind, part.get("text").and_then(Value::as_str)) {
            ("text", Some(piece)) => text.push_str(piece),
            ("text", None) => return bad("a part of \"content\" has no \"text\""),
            (other, _) => {
                return bad(&format!(
                    "\"content\" has a part of type {other:?}; `train` learns from text alone"
                ));
            }
        }
    }
    Ok(text.into())
}

/// A call as `{"type": "function", "function": {"name", "arguments"}}`, its arguments an object wherever they are one.
fn call(call: Value) -> Read<Value> {
    let Value::Object(mut fields) = call else {
        return bad("a tool call is not an object");
    };
    let mut function = match fields.remove("function") {
        Some(Value::Object(function)) => function,
        Some(_) => return bad("\"function\" of a tool call is not an object"),
        None => {
            let inner = ["name", "arguments"].map(|key| (key.to_owned(), fields.remove(key)));
            let given = inner
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?)));
            given.collect()
        }
    };
    if !function.get("name").is_some_and(Value::is_string) {
        return bad("a tool call has no \"name\"");
    }
    if let Some(Value::String(text)) = function.get("arguments")
        && let Ok(arguments @ Value::Object(_)) = serde_json::from_str(text)
    {
        function.insert("arguments".to_owned(), arguments);
    }
    let mut made = Map::new();
    made.insert("type".to_owned(), "function".into());
    made.insert("function".to_owned(), function.into());
    fields.remove("type");
    made.extend(fields);
    Ok(made.into())
}
