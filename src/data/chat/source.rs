//! Which template a run uses: the one that was asked for, the model's own, or the built-in one that its vocabulary speaks for.

use std::path::Path;

use crate::data::Tokenizer;
use crate::error;
use crate::error::{Error, Result};

/// Our own templates by name, and the tokens that a vocabulary made for each of them has.
const BUILT_IN: [(&str, &str, &[&str]); 7] = [
    (
        "chatml",
        include_str!("templates/chatml.jinja"),
        &["<|im_start|>", "<|im_end|>"],
    ),
    (
        "llama3",
        include_str!("templates/llama3.jinja"),
        &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
    ),
    (
        "gemma",
        include_str!("templates/gemma.jinja"),
        &["<start_of_turn>", "<end_of_turn>"],
    ),
    (
        "phi3",
        include_str!("templates/phi3.jinja"),
        &["<|user|>", "<|assistant|>", "<|end|>"],
    ),
    (
        "mistral",
        include_str!("templates/mistral.jinja"),
        &["[INST]", "[/INST]"],
    ),
    // Never the default: its vocabulary is chatml's, and thinking is for models that learned it.
    (
        "qwen3",
        include_str!("templates/qwen3.jinja"),
        &["<|im_start|>", "<|im_end|>", "<think>", "</think>"],
    ),
    ("plain", include_str!("templates/plain.jinja"), &[]),
];

/// A template's text and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    pub text: String,
    /// For conversations with tools, where the model has a template of its own for them.
    pub with_tools: Option<String>,
    /// For messages: "the chat template of the model", "the chat template x.jinja".
    pub name: String,
    /// What to say aloud when the model has none and nobody chose one.
    pub notice: Option<String>,
}

/// Finds the template. `chosen` is `--chat-template`: a name of ours or of the model's, a file, or the text of a template.
pub fn find(tokenizer: &Tokenizer, chosen: Option<&str>) -> Result<Source> {
    let Some(chosen) = chosen else {
        return Ok(own(tokenizer));
    };
    let source = |text: &str, name: String| Source {
        text: text.to_owned(),
        with_tools: None,
        name,
        notice: None,
    };
    let built_in = BUILT_IN.iter().find(|(name, ..)| *name == chosen);
    if let Some((name, text, _)) = built_in {
        return Ok(source(text, format!("the built-in chat template {name}")));
    }
    if let Some(text) = tokenizer.templates().get(chosen) {
        return Ok(source(text, format!("the model's chat template {chosen}")));
    }
    if chosen.contains("{{") || chosen.contains("{%") {
        return Ok(source(chosen, "the chat template given".to_owned()));
    }
    let path = Path::new(chosen);
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(source(&text, format!("the chat template {chosen}"))),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            Err(unknown(tokenizer, chosen))
        }
        Err(cause) => Err(Error::file("read", path, &cause)),
    }
}

/// The model's own template, or one for its vocabulary.
fn own(tokenizer: &Tokenizer) -> Source {
    let templates = tokenizer.templates();
    if let Some(text) = tokenizer.chat_template() {
        return Source {
            text: text.to_owned(),
            with_tools: templates.get("tool_use").map(str::to_owned),
            name: "the chat template of the model".to_owned(),
            notice: None,
        };
    }
    let known = |tokens: &&[&str]| tokens.iter().all(|token| tokenizer.id(token).is_some());
    let fitting = BUILT_IN.iter().find(|(_, _, tokens)| known(tokens));
    let (name, text, tokens) = fitting.unwrap_or(&BUILT_IN[BUILT_IN.len() - 1]);
    let why = match tokens.first() {
        Some(token) => format!("its vocabulary has {token}"),
        None => "its vocabulary has no marks of turns".to_owned(),
    };
    Source {
        text: (*text).to_owned(),
        with_tools: None,
        name: format!("the built-in chat template {name}"),
        notice: Some(format!(
            "the model has no chat template; {name} is used, because {why} (--chat-template chooses another)"
        )),
    }
}

fn unknown(tokenizer: &Tokenizer, chosen: &str) -> Error {
    let ours = BUILT_IN.iter().map(|(name, ..)| *name);
    let names: Vec<&str> = ours.chain(tokenizer.templates().names()).collect();
    error!(
        Usage,
        "--chat-template {chosen:?} is no file, no known name, and no text of a template"
    )
    .hint(format!("names: {}", names.join(", ")))
}
