//! A chat template: a Jinja program that writes a conversation as text, run as transformers runs it.
//!
//! trim_blocks and lstrip_blocks are on, undefined values print as nothing, and the template sees `messages`, `tools`,
//! `documents`, `add_generation_prompt`, the special tokens by name, `raise_exception` and `strftime_now`. A template comes
//! with a download, so what it may use is limited: it ends with an error, never with a full memory or a hang.
//! Source: huggingface/transformers, `utils/chat_template_utils.py`.

use std::ops::Range;
use std::time::SystemTime;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error as Cause, ErrorKind, Value};
use serde_json::{Map, Value as Json};

use super::{markers, python};
use crate::backend;
use crate::data::Conversation;
use crate::error;
use crate::error::{Code, Error, Result};
use crate::format::digest;

/// Steps that every rendering may take; each pays for one operation or 64 bytes, so 64 MB of text at most.
const FUEL: u64 = 1_000_000;
/// Steps that each byte of the conversation adds: templates look at every message several times.
const FUEL_PER_BYTE: u64 = 16;
/// Longest template that is compiled, in bytes; published ones stay below 30 KB.
const LONGEST: usize = 1 << 20;

/// A compiled template with the special tokens of its model.
pub struct Template {
    text: String,
    environment: Environment<'static>,
    tokens: Vec<(String, String)>,
    /// Whether it says itself what an assistant writes.
    pub marked: bool,
}

/// What a template made of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    pub text: String,
    /// Bytes between `{% generation %}` and `{% endgeneration %}`.
    pub marked: Vec<Range<usize>>,
}

/// What stands after the last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// What the template closes a conversation with: usually nothing.
    Closed,
    /// The beginning of an assistant's turn, as the model sees it before it answers.
    Prompt,
}

impl Template {
    /// Compiles `text`. `tokens`: texts of special tokens by the names templates know. `source` is for messages, `now` the
    /// time that `strftime_now` tells, for all conversations the same.
    pub fn new(
        text: &str,
        tokens: &[(String, String)],
        source: &str,
        now: SystemTime,
    ) -> Result<Template> {
        let invalid = |cause: String| {
            error!(BadModel, "{source} cannot be used: {cause}").hint(
                "use another template: --chat-template FILE, or one of the built-in names such as chatml",
            )
        };
        if text.len() > LONGEST {
            return Err(invalid(format!("it is {} bytes long", text.len())));
        }
        if markers::collide(text) {
            return Err(invalid("it has characters Unicode does not allow".into()));
        }
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(|cause| invalid(cause.to_string()))?;
        environment.set_syntax(syntax);
        environment.set_unknown_method_callback(python::method);
        environment.set_formatter(|out, _, value| {
            out.write_str(&python::str_of(value)?).map_err(Cause::from)
        });
        environment.add_filter("tojson", python::tojson);
        environment.add_filter("trim", python::trim);
        environment.add_filter("string", python::str_of);
        environment.add_function("raise_exception", raise);
        let tell = move |format: &str| backend::local_time(format, now);
        environment.add_function("strftime_now", tell);
        let rewritten = markers::rewrite(text);
        let marked = rewritten.is_some();
        let program = rewritten.unwrap_or_else(|| text.to_owned());
        environment
            .add_template_owned("chat template", program)
            .map_err(|cause| invalid(reason(&cause)))?;
        Ok(Template {
            text: text.to_owned(),
            environment,
            tokens: tokens.to_vec(),
            marked,
        })
    }

    /// Whether what it writes may depend on the time.
    pub fn tells_time(&self) -> bool {
        self.text.contains("strftime_now")
    }

    /// SHA-256 in hexadecimal of the template's text.
    pub fn sha256(&self) -> String {
        digest::bytes(self.text.as_bytes())
    }

    /// The text of `messages`, which may be part of `conversation` or a variation on it.
    ///
    /// Errors: what the template raises, a use of what it lacks, too much work.
    pub fn render(
        &self,
        messages: &[Map<String, Json>],
        conversation: &Conversation,
        ending: Ending,
    ) -> std::result::Result<Rendered, Refusal> {
        let mut size = 0;
        for message in messages {
            size += weigh(&Json::Object(message.clone()))?;
        }
        size += conversation.tools.as_ref().map_or(Ok(0), weigh)?;
        let mut context: Map<String, Json> = Map::new();
        for (name, text) in &self.tokens {
            context.insert(name.clone(), text.as_str().into());
        }
        for (name, value) in &conversation.template_kwargs {
            size += weigh(value)?;
            context.insert(name.clone(), value.clone());
        }
        let messages: Vec<Json> = messages.iter().map(normalized).collect();
        context.insert("messages".into(), messages.into());
        let tools = conversation.tools.clone();
        context.insert("tools".into(), tools.unwrap_or_default());
        context.insert("documents".into(), Json::Null);
        let prompt = ending == Ending::Prompt;
        context.insert("add_generation_prompt".into(), prompt.into());

        let mut environment = self.environment.clone();
        environment.set_fuel(Some(FUEL + FUEL_PER_BYTE * size as u64));
        let template = environment
            .get_template("chat template")
            .map_err(|cause| Refusal(reason(&cause)))?;
        let rendered = template
            .render(Value::from(Serde(&context)))
            .map_err(|cause| Refusal(reason(&cause)))?;
        let taken = markers::take(&rendered);
        let (text, marked) = taken.ok_or_else(|| {
            Refusal("{% generation %} and {% endgeneration %} are not in pairs".into())
        })?;
        Ok(Rendered { text, marked })
    }
}

/// Why a template did not render a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal(pub String);

impl Refusal {
    /// As an error about the record at `place`.
    pub fn at(self, place: &str) -> Error {
        let Refusal(reason) = self;
        Error::new(
            Code::BadData,
            format!("{place}: the chat template refuses this conversation: {reason}"),
        )
        .hint("change or leave out the record, or choose a template that takes it: --chat-template")
    }
}

fn raise(message: &str) -> std::result::Result<Value, Cause> {
    Err(Cause::new(ErrorKind::InvalidOperation, message.to_owned()))
}

/// What went wrong, in one line.
fn reason(cause: &Cause) -> String {
    let line = cause.line().map_or(String::new(), |line| {
        format!(" (line {line} of the template)")
    });
    match (cause.kind(), cause.detail()) {
        (ErrorKind::OutOfFuel, _) => format!("it does too much work{line}"),
        (_, Some(detail)) => format!("{}{line}", detail.trim()),
        (kind, None) => format!("{kind}{line}"),
    }
}

/// A message as transformers passes it: without nulls, and its reasoning under each name templates know.
fn normalized(message: &Map<String, Json>) -> Json {
    let mut kept = message.clone();
    kept.retain(|_, value| !value.is_null());
    let names = ["reasoning_content", "thinking", "reasoning"];
    if let Some(reasoning) = names.iter().find_map(|name| kept.get(*name)).cloned() {
        if !kept.contains_key("thinking") {
            kept.shift_insert(0, "thinking".into(), reasoning.clone());
        }
        kept.insert("reasoning_content".into(), reasoning);
    }
    Json::Object(kept)
}

/// Bytes of all texts in `value`, none of which may hold the characters of the marks.
fn weigh(value: &Json) -> std::result::Result<usize, Refusal> {
    match value {
        Json::String(text) if markers::collide(text) => Err(Refusal(
            "a text has characters that Unicode does not allow (U+10FFFE, U+10FFFF)".into(),
        )),
        Json::String(text) => Ok(text.len()),
        Json::Array(items) => items.iter().map(weigh).sum(),
        Json::Object(fields) => fields.values().map(weigh).sum(),
        _ => Ok(8),
    }
}
