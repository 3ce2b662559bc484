//! Records as tokens and what of them is learned: the one way from text to ids, for every content and every trainer.
//!
//! A text or conversation is tokenized once, as a whole; tokenizing its parts would give other ids where they meet. What is
//! learned is then a question of places: a token is learned when it reaches into what an assistant writes (transformers'
//! rule), and a completion begins where its tokens and those of the prompt alone part ways (TRL's rule). Texts of special
//! tokens inside a message become those tokens, as in transformers.
//! Source: huggingface/trl, `trainer/sft_trainer.py`.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::data::chat::{Chat, Ending, RoleHeader, Turns, common};
use crate::data::{Content, Conversation, Encoded, Eos, Record, Tokenizer};
use crate::error;
use crate::error::Result;

/// Which tokens are learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrainOn {
    All,
    /// Of a prompt and a completion the completion, of a conversation its last answer.
    Completions,
    /// Every turn of the assistant.
    Assistant,
}

/// How records become tokens.
#[derive(Debug, Clone, Copy)]
pub struct Encoding<'a> {
    /// `--chat-template`: a name, a file or a text; none takes the model's own.
    pub chat_template: Option<&'a str>,
    /// None: all of a text, the completion of a prompt, the assistant's turns of a conversation.
    pub train_on: Option<TrainOn>,
    pub role_header: RoleHeader,
    pub eos: Eos,
    /// What templates take for the time.
    pub now: SystemTime,
}

pub struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    encoding: Encoding<'a>,
    /// Opened when the first conversation comes: texts need none, and a broken one is no trouble to them.
    chat: OnceLock<Result<Chat>>,
}

impl<'a> Encoder<'a> {
    pub fn new(tokenizer: &'a Tokenizer, encoding: Encoding<'a>) -> Encoder<'a> {
        Encoder {
            tokenizer,
            encoding,
            chat: OnceLock::new(),
        }
    }

    /// The template of the conversations so far; none when there was no conversation.
    pub fn used_chat(&self) -> Option<&Chat> {
        self.chat.get().and_then(|chat| chat.as_ref().ok())
    }

    /// The tokens of `record`: one BOS where the tokenizer's settings put it, one end token learned once.
    ///
    /// Errors name the record: a template that refuses it, turns that cannot be told apart for certain, `--train-on` that
    /// does not fit it.
    pub fn encode(&self, record: &Record) -> Result<Encoded> {
        let mut encoded = match &record.content {
            Content::Text(text) => self.text(text, &record.place)?,
            Content::Completion { prompt, completion } => {
                self.completion(prompt, completion, &record.place)?
            }
            Content::Chat(conversation) => self.chat(conversation, &record.place)?,
        };
        if let Some(first) = encoded.learned.first_mut() {
            *first = false;
        }
        Ok(encoded)
    }

    fn text(&self, text: &str, place: &str) -> Result<Encoded> {
        match self.encoding.train_on {
            None | Some(TrainOn::All) => (),
            Some(TrainOn::Completions) => return Err(unfit(place, "completions", "a plain text")),
            Some(TrainOn::Assistant) => return Err(unfit(place, "assistant", "a plain text")),
        }
        let ids = self.closed(self.tokenizer.encode_document(text)?);
        let learned = vec![true; ids.len()];
        Ok(Encoded { ids, learned })
    }

    fn completion(&self, prompt: &str, completion: &str, place: &str) -> Result<Encoded> {
        let whole = [prompt, completion].concat();
        let ids = self.closed(self.tokenizer.encode_document(&whole)?);
        let given = match self.encoding.train_on {
            Some(TrainOn::All) => 0,
            None | Some(TrainOn::Completions) => {
                common(&self.tokenizer.encode_document(prompt)?, &ids)
            }
            Some(TrainOn::Assistant) => {
                return Err(unfit(place, "assistant", "a prompt and a completion"));
            }
        };
        let learned = (0..ids.len()).map(|index| index >= given).collect();
        Ok(Encoded { ids, learned })
    }

    /// `ids` with the end token, unless they end with it or none is wanted.
    fn closed(&self, mut ids: Vec<u32>) -> Vec<u32> {
        if self.encoding.eos == Eos::Append
            && let Some(eos) = self.tokenizer.eos()
            && ids.last() != Some(&eos)
        {
            ids.push(eos);
        }
        ids
    }

    fn chat(&self, conversation: &Conversation, place: &str) -> Result<Encoded> {
        if conversation.messages.is_empty() {
            return Err(error!(BadData, "{place}: a conversation without messages")
                .hint("leave out the record"));
        }
        let open = || {
            let Encoding {
                chat_template, now, ..
            } = self.encoding;
            Chat::open(self.tokenizer, chat_template, now)
        };
        let chat = self.chat.get_or_init(open).as_ref().map_err(Clone::clone)?;
        let template = chat.template(conversation);
        let refused = |refusal: crate::data::chat::Refusal| refusal.at(place);
        let rendered = template
            .render(&conversation.messages, conversation, Ending::Closed)
            .map_err(refused)?;
        let (ids, places) = self.tokenizer.encode_with_places(&rendered.text)?;
        let turns = Turns {
            template,
            tokenizer: self.tokenizer,
            conversation,
            full: &rendered.text,
        };
        let first = conversation.first_completion;
        let train_on = match (self.encoding.train_on, first) {
            (Some(train_on), _) => train_on,
            (None, 0) => TrainOn::Assistant,
            (None, _) => TrainOn::Completions,
        };
        let mut learned = match train_on {
            TrainOn::All => vec![true; ids.len()],
            TrainOn::Completions if first > 0 => {
                let prompt = template
                    .render(
                        &conversation.messages[..first],
                        conversation,
                        Ending::Prompt,
                    )
                    .map_err(refused)?;
                let given = common(&self.tokenizer.encode(&prompt.text)?, &ids);
                let unlearned = self.turns(&turns, place, |index| {
                    index >= first && !conversation.may_learn(index)
                })?;
                let outside = reaching(&places, &unlearned);
                let after = outside.iter().enumerate();
                after.map(|(index, out)| index >= given && !out).collect()
            }
            TrainOn::Completions => {
                let last = conversation.messages.iter().rposition(is_assistant);
                let spans = self.turns(&turns, place, |index| Some(index) == last)?;
                reaching(&places, &spans)
            }
            TrainOn::Assistant => {
                let all = (0..conversation.messages.len())
                    .filter(|&index| is_assistant(&conversation.messages[index]))
                    .all(|index| conversation.may_learn(index));
                let marked = template.marked && self.encoding.role_header == RoleHeader::Masked;
                let by_turns = || self.turns(&turns, place, |index| conversation.may_learn(index));
                match (marked, all) {
                    (true, true) => reaching(&places, &rendered.marked),
                    (true, false) => {
                        let marked = reaching(&places, &rendered.marked);
                        let pairs = marked.into_iter().zip(reaching(&places, &by_turns()?));
                        pairs.map(|(marked, learned)| marked && learned).collect()
                    }
                    (false, _) => reaching(&places, &by_turns()?),
                }
            }
        };
        let mut ids = ids;
        let last = conversation.messages.len() - 1;
        if self.encoding.eos == Eos::Append
            && let Some(eos) = self.tokenizer.eos()
            && is_assistant(&conversation.messages[last])
            && !self.is_closed(&ids)?
        {
            ids.push(eos);
            learned.push(train_on == TrainOn::All || conversation.may_learn(last));
        }
        let count = ids.len();
        let ids = self.tokenizer.with_prefix(ids);
        learned.splice(0..0, vec![train_on == TrainOn::All; ids.len() - count]);
        Ok(Encoded { ids, learned })
    }

    /// What the assistant writes in the turns that `wanted` takes.
    fn turns(
        &self,
        turns: &Turns,
        place: &str,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Vec<Range<usize>>> {
        let messages = turns.conversation.messages.iter().enumerate();
        let indices = messages
            .filter(|(index, message)| is_assistant(message) && wanted(*index))
            .map(|(index, _)| index);
        let span = |index| {
            let number = index + 1;
            turns.of(index, self.encoding.role_header).map_err(|why| {
                error!(BadData, "{place}: what the assistant writes in message {number} cannot be told from the rest: {why}")
                    .hint("use a template that marks it with {% generation %} (--chat-template FILE), learn everything (--train-on all), or leave out the record")
            })
        };
        indices.map(span).collect()
    }

    /// Whether a special token ends the last turn; white space may follow it.
    fn is_closed(&self, ids: &[u32]) -> Result<bool> {
        for &id in ids.iter().rev() {
            if self.tokenizer.is_special(id) || Some(id) == self.tokenizer.eos() {
                return Ok(true);
            }
            if !self.tokenizer.decode(&[id])?.trim().is_empty() {
                return Ok(false);
            }
        }
        Ok(false)
    }
}

fn is_assistant(message: &serde_json::Map<String, serde_json::Value>) -> bool {
    message.get("role").and_then(serde_json::Value::as_str) == Some("assistant")
}

/// For each token whether its place reaches into one of `spans`, which are in order.
fn reaching(places: &[Range<usize>], spans: &[Range<usize>]) -> Vec<bool> {
    let mut spans = spans.iter().peekable();
    let reaches = |place: &Range<usize>| {
        while spans.next_if(|span| place.start >= span.end).is_some() {}
        spans.peek().is_some_and(|span| place.end > span.start)
    };
    places.iter().map(reaches).collect()
}

fn unfit(place: &str, value: &str, what: &str) -> crate::error::Error {
    error!(
        BadData,
        "{place} is {what}, which --train-on {value} does not fit"
    )
    .hint("leave --train-on out, or use --train-on all")
}
