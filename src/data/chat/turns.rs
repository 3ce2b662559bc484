//! Where each turn of a conversation stands in its rendering, for templates without marks of their own.
//!
//! The definition is inference: a model is shown the messages before its turn with the generation prompt after them, and must
//! write all that follows in the rendering up to the next message. So two boundaries are needed for every message k: the
//! end of the rendering of messages 0 to k, with the prompt (the next turn begins) and without (turn k ends).
//!
//! Where the rendering of the whole conversation begins with that shorter one, its length is the boundary. Some templates
//! write earlier turns otherwise once later ones exist: Qwen3 drops thoughts, Mistral moves the system's words, Phi-3 closes
//! with an end token. Then message k is replaced by a word that occurs nowhere else. What follows the word in the shorter
//! rendering must be how the whole one goes on after it, token for token; and since nothing after the boundary depends on
//! message k, the true rendering must end with exactly the text behind it, which fixes the place. What fails a check is an
//! error: no boundary is guessed, and none is looked for by the words of a turn, which may stand elsewhere too.

use std::ops::Range;

use serde_json::{Map, Value};

use super::template::{Ending, Template};
use crate::data::{Conversation, Tokenizer};

/// Whether the words that open an assistant's turn are learned with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleHeader {
    /// Not learned: the model finds them in its prompt. TRL's masks.
    Masked,
    Learned,
}

/// A conversation and its rendering.
pub struct Turns<'a> {
    pub template: &'a Template,
    pub tokenizer: &'a Tokenizer,
    pub conversation: &'a Conversation,
    /// All messages, without a generation prompt.
    pub full: &'a str,
}

impl Turns<'_> {
    /// The bytes of `full` that the assistant of message `index` writes, or why they cannot be told.
    pub fn of(&self, index: usize, header: RoleHeader) -> Result<Range<usize>, String> {
        let start = match (index, header) {
            (0, _) => self.opening()?,
            (_, RoleHeader::Masked) => self.boundary(index - 1, Ending::Prompt)?,
            (_, RoleHeader::Learned) => self.boundary(index - 1, Ending::Closed)?,
        };
        let end = match index + 1 == self.conversation.messages.len() {
            true => self.full.len(),
            false => self.boundary(index, Ending::Closed)?,
        };
        let turn = self
            .full
            .get(start..end)
            .ok_or("it ends before it begins")?;
        let message = &self.conversation.messages[index];
        let words = message.get("content").and_then(Value::as_str).unwrap_or("");
        // Thoughts may be dropped, and many templates write calls instead of words: those are no loss.
        let words = words.rsplit("</think>").next().unwrap_or("").trim();
        if !message.contains_key("tool_calls") && !turn.contains(words) {
            return Err("the template leaves its words out or changes them".to_owned());
        }
        Ok(start..end)
    }

    /// Where the first message's turn begins, when it is the assistant's.
    fn opening(&self) -> Result<usize, String> {
        match self.render(&[], Ending::Prompt) {
            Ok(prompt) if !prompt.is_empty() && self.full.starts_with(&prompt) => Ok(prompt.len()),
            _ => Err("nothing stands before it; begin the conversation with a user".to_owned()),
        }
    }

    /// The end of messages 0 to `last` in `full`, the generation prompt of the next turn included or not.
    fn boundary(&self, last: usize, ending: Ending) -> Result<usize, String> {
        let messages = &self.conversation.messages;
        let short = self.render(&messages[..=last], ending)?;
        if self.full.starts_with(&short) {
            return Ok(short.len());
        }
        let probe = self.probe();
        let mut why = "no word can be put in its place".to_owned();
        for changed in variants(messages, last, &probe) {
            match self.behind(&changed, last, ending, &probe) {
                Ok(behind) => return Ok(self.full.len() - behind),
                Err(reason) => why = reason,
            }
        }
        Err(format!(
            "where message {} ends is not certain: {why}",
            last + 1
        ))
    }

    /// How many bytes of the whole rendering follow the boundary, found with `probe` in the place of message `last`.
    fn behind(
        &self,
        changed: &[Map<String, Value>],
        last: usize,
        ending: Ending,
        probe: &str,
    ) -> Result<usize, String> {
        let short = self.render(&changed[..=last], ending)?;
        let whole = self.render(changed, Ending::Closed)?;
        let (Some(short), Some(whole)) = (after(&short, probe), after(&whole, probe)) else {
            return Err("its text is not written once".to_owned());
        };
        let shared = self.shared(short, whole)?;
        let (extra, rest) = (&short[shared..], &whole[shared..]);
        let certain = match ending {
            // What a conversation is closed with may follow the turn here and stands at the very end there.
            Ending::Closed => {
                extra.is_empty() || self.begins_specially(extra) && self.full.ends_with(extra)
            }
            // A prompt may go on where this turn does not: a thought that is opened, and was dropped afterwards.
            Ending::Prompt => extra.is_empty() || shared > 0,
        };
        match certain && self.full.ends_with(rest) {
            true => Ok(rest.len()),
            false => Err("it is written otherwise when more messages follow".to_owned()),
        }
    }

    /// The bytes at the beginning of `whole` that `short` begins with too: all of `short`, or whole tokens of it.
    fn shared(&self, short: &str, whole: &str) -> Result<usize, String> {
        if whole.starts_with(short) {
            return Ok(short.len());
        }
        let tokens = |text| {
            self.tokenizer
                .encode_with_places(text)
                .map_err(|cause| cause.message)
        };
        let ((short, _), (whole, places)) = (tokens(short)?, tokens(whole)?);
        let count = common(&short, &whole);
        Ok(count.checked_sub(1).map_or(0, |last| places[last].end))
    }

    fn begins_specially(&self, text: &str) -> bool {
        let first = self.tokenizer.encode(text).ok();
        first
            .and_then(|ids| ids.first().copied())
            .is_some_and(|id| self.tokenizer.is_special(id))
    }

    fn render(&self, messages: &[Map<String, Value>], ending: Ending) -> Result<String, String> {
        self.template
            .render(messages, self.conversation, ending)
            .map(|rendered| rendered.text)
            .map_err(|refusal| refusal.0)
    }

    /// A word that the rendering does not hold. Letters only: no template trims, splits or escapes it.
    fn probe(&self) -> String {
        let mut probe = "Xqzv".to_owned();
        while self.full.contains(&probe) {
            probe.push_str("kwj");
        }
        probe
    }
}

/// How many ids at the beginning are the same.
pub fn common(one: &[u32], other: &[u32]) -> usize {
    let pairs = one.iter().zip(other);
    pairs.take_while(|(one, other)| one == other).count()
}

/// The messages with `probe` in message `index`: as its words, or as the name of the last tool it calls.
fn variants(
    messages: &[Map<String, Value>],
    index: usize,
    probe: &str,
) -> Vec<Vec<Map<String, Value>>> {
    let mut words = messages.to_vec();
    words[index].insert("content".into(), probe.into());
    let mut call = messages.to_vec();
    let name = call[index]
        .get_mut("tool_calls")
        .and_then(Value::as_array_mut)
        .and_then(|calls| calls.last_mut())
        .and_then(|call| call.pointer_mut("/function/name"));
    match name {
        Some(name) => {
            *name = probe.into();
            vec![words, call]
        }
        None => vec![words],
    }
}

/// What follows `probe` in a text that holds it exactly once.
fn after<'a>(text: &'a str, probe: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(probe)?;
    (!rest.contains(probe)).then_some(rest)
}
