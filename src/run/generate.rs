//! `generate`: a model, with or without an adapter, continues a prompt or answers a chat's first message.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bail;
use crate::data::chat::Chat;
use crate::data::{Conversation, Tokenizer};
use crate::error::Result;
use crate::generate::{self, Sampler};
use crate::run::Package;
use crate::run::adapted::{Adapted, with_threads};
use crate::run::stream::TextStream;
use crate::train::{BUILT_IN, Event, Listener};

/// Options of `generate`; absent ones have the defaults of the option table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GenerateOptions {
    pub model: String,
    pub adapter: Option<String>,
    pub prompt: String,
    /// The prompt is what a user says, and the model answers.
    pub chat: bool,
    pub system: Option<String>,
    pub chat_template: Option<String>,
    pub max_tokens: usize,
    pub temperature: f64,
    pub top_k: usize,
    pub top_p: f64,
    pub repeat_penalty: f64,
    pub stop: Vec<String>,
    pub seed: u64,
    pub backend: String,
    pub threads: usize,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        GenerateOptions {
            model: BUILT_IN.to_owned(),
            adapter: None,
            prompt: String::new(),
            chat: false,
            system: None,
            chat_template: None,
            max_tokens: 256,
            temperature: 0.7,
            top_k: 40,
            top_p: 0.95,
            repeat_penalty: 1.0,
            stop: Vec::new(),
            seed: 0,
            backend: "auto".to_owned(),
            threads: 0,
        }
    }
}

/// What was written, and how fast.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Generated {
    /// What the model wrote after the prompt.
    pub text: String,
    pub reason: Reason,
    pub prompt_tokens: usize,
    pub tokens: usize,
    /// From the start of the prompt's pass.
    pub first_token_ms: u64,
    /// After the first.
    pub tokens_per_second: f64,
    pub duration_ms: u64,
}

/// Why a text ended: the model's end token, a stop string, the most tokens, or a call to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    End,
    StopString,
    Length,
    Stopped,
}

/// Continues the prompt and tells every piece of text as a `token` event.
pub fn generate(
    options: &GenerateOptions,
    package: &Package,
    listener: &dyn Listener,
    stop: &AtomicBool,
) -> Result<Generated> {
    if options.prompt.is_empty() {
        bail!(Usage, "--prompt is empty; name a text to continue");
    }
    for (name, given) in [
        ("system", options.system.is_some()),
        ("chat-template", options.chat_template.is_some()),
    ] {
        if given && !options.chat {
            bail!(Usage, "--{name} is for chats; add --chat");
        }
    }
    with_threads(&options.backend, options.threads, || {
        let adapted = Adapted::open(
            &options.model,
            options.adapter.as_deref(),
            package,
            listener,
        )?;
        let model = adapted.decoder(adapted.adapter())?;
        let tokenizer = &adapted.base.tokenizer;
        let (prompt, ends) = begin(options, tokenizer, listener)?;
        let room = adapted.base.spec.context;
        if prompt.len() >= room {
            let message = format!(
                "the prompt has {} tokens, the model was made for {room}",
                prompt.len()
            );
            listener.event(&Event::Warning {
                code: "LONG_SEQUENCE",
                message,
            });
        }
        let sampler = Sampler {
            temperature: options.temperature as f32,
            top_k: options.top_k,
            top_p: options.top_p as f32,
            repeat_penalty: options.repeat_penalty as f32,
            seed: options.seed,
        };
        let tell = |text: String| listener.event(&Event::Token { text });
        let mut stream = TextStream::new(tokenizer, &prompt, &options.stop);
        let (mut first, mut reason) = (None, None);
        let started = Instant::now();
        let written = generate::generate(
            &model,
            &prompt,
            options.max_tokens,
            &ends,
            &sampler,
            &mut |id| {
                first.get_or_insert_with(|| started.elapsed());
                let piece = stream.push(id)?;
                if !piece.is_empty() {
                    tell(piece);
                }
                reason = match (stream.is_over(), stop.load(Ordering::Relaxed)) {
                    (true, _) => Some(Reason::StopString),
                    (_, true) => Some(Reason::Stopped),
                    _ => return Ok(ControlFlow::Continue(())),
                };
                Ok(ControlFlow::Break(()))
            },
        )?;
        let duration = started.elapsed();
        let rest = stream.finish()?;
        if !rest.is_empty() {
            tell(rest);
        }
        let after_first = duration - first.unwrap_or(duration);
        Ok(Generated {
            text: stream.text().to_owned(),
            reason: reason.unwrap_or(match written.len() < options.max_tokens {
                true => Reason::End,
                false => Reason::Length,
            }),
            prompt_tokens: prompt.len(),
            tokens: written.len(),
            first_token_ms: first.unwrap_or(duration).as_millis() as u64,
            tokens_per_second: match after_first.is_zero() {
                true => 0.0,
                false => written.len().saturating_sub(1) as f64 / after_first.as_secs_f64(),
            },
            duration_ms: duration.as_millis() as u64,
        })
    })
}

/// The ids that the model continues, and those that end its text.
fn begin(
    options: &GenerateOptions,
    tokenizer: &Tokenizer,
    listener: &dyn Listener,
) -> Result<(Vec<u32>, Vec<u32>)> {
    if !options.chat {
        let ends = tokenizer.eos().into_iter().collect();
        return Ok((tokenizer.encode_document(&options.prompt)?, ends));
    }
    let template = options.chat_template.as_deref();
    let chat = Chat::open(tokenizer, template, SystemTime::now())?;
    if let Some(notice) = chat.notice() {
        listener.event(&Event::Warning {
            code: "CHAT_TEMPLATE",
            message: notice.to_owned(),
        });
    }
    let message = |role: &str, content: &str| {
        let pairs = [("role", role), ("content", content)];
        Map::from_iter(pairs.map(|(key, text)| (key.to_owned(), Value::from(text))))
    };
    let system = options.system.iter();
    let mut messages: Vec<_> = system.map(|text| message("system", text)).collect();
    messages.push(message("user", &options.prompt));
    let prompt = chat.prompt(tokenizer, &Conversation::new(messages))?;
    Ok((prompt, chat.turn_ends(tokenizer)?))
}
