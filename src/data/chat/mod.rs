//! Conversations as text and tokens: templates, whose turn is where, what a model is asked.

mod markers;
mod python;
mod source;
mod template;
mod turns;

pub use template::{Ending, Refusal, Template};
pub use turns::{RoleHeader, Turns, common};

use std::time::SystemTime;

use serde_json::{Map, Value};

use crate::data::{Conversation, Tokenizer};
use crate::error::Result;

/// The templates of a run.
pub struct Chat {
    template: Template,
    /// For conversations with tools, where the model has another template for them.
    with_tools: Option<Template>,
    notice: Option<String>,
}

impl Chat {
    /// The template `chosen` (`--chat-template`: a name, a file or a text), else the model's own, else a built-in one for
    /// its vocabulary. `now` is the time that a template tells when it asks.
    pub fn open(tokenizer: &Tokenizer, chosen: Option<&str>, now: SystemTime) -> Result<Chat> {
        let source = source::find(tokenizer, chosen)?;
        let compile = |text: &str| Template::new(text, tokenizer.named_tokens(), &source.name, now);
        Ok(Chat {
            template: compile(&source.text)?,
            with_tools: source.with_tools.as_deref().map(compile).transpose()?,
            notice: source.notice,
        })
    }

    /// What to tell the user about a template that nobody chose.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// The template that writes `conversation`.
    pub fn template(&self, conversation: &Conversation) -> &Template {
        match (&conversation.tools, &self.with_tools) {
            (Some(_), Some(template)) => template,
            _ => &self.template,
        }
    }

    /// Whether what the templates write may depend on the time.
    pub fn tells_time(&self) -> bool {
        self.template.tells_time() || self.with_tools.as_ref().is_some_and(Template::tells_time)
    }

    /// SHA-256 in hexadecimal of the template's text.
    pub fn sha256(&self) -> String {
        self.template.sha256()
    }

    /// What the model is shown before it answers `conversation`: all messages and the beginning of an assistant's turn,
    /// with one BOS where the tokenizer's settings want it.
    ///
    /// Errors: the template refuses the conversation.
    pub fn prompt(&self, tokenizer: &Tokenizer, conversation: &Conversation) -> Result<Vec<u32>> {
        let rendered = self
            .template(conversation)
            .render(&conversation.messages, conversation, Ending::Prompt)
            .map_err(|refusal| refusal.at("the chat"))?;
        Ok(tokenizer.with_prefix(tokenizer.encode(&rendered.text)?))
    }

    /// The ids that end an answer: the end token, and the special token this template puts after an assistant's words.
    pub fn turn_ends(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
        let mut ends: Vec<u32> = tokenizer.eos().into_iter().collect();
        let message = |role: &str, content: &str| {
            let pairs = [("role", role), ("content", content)];
            let pairs = pairs.map(|(key, text)| (key.to_owned(), Value::from(text)));
            Map::from_iter(pairs)
        };
        const ANSWER: &str = "Xqzv";
        let conversation =
            Conversation::new(vec![message("user", "a"), message("assistant", ANSWER)]);
        let rendered = self
            .template
            .render(&conversation.messages, &conversation, Ending::Closed);
        // A template that refuses two plain turns has an end that only its own conversations show.
        if let Ok(rendered) = rendered
            && let Some((_, tail)) = rendered.text.split_once(ANSWER)
        {
            let ids = tokenizer.encode(tail)?;
            let end = ids.into_iter().find(|&id| tokenizer.is_special(id));
            ends.extend(end.filter(|end| !ends.contains(end)));
        }
        Ok(ends)
    }
}

#[cfg(test)]
mod tests;
