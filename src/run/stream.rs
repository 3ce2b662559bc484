//! Tokens into text as they come: whole characters only, and nothing of a stop string.

use crate::data::Tokenizer;
use crate::error::Result;

/// What a broken character decodes to.
const UNFINISHED: char = '\u{fffd}';

/// Tokens before the new ones that are decoded with them: enough for a character of several tokens, and for the spaces
/// that some tokenizers drop at the start of a text.
const CONTEXT: usize = 8;

/// The text of a growing list of tokens.
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    stops: &'a [String],
    ids: Vec<u32>,
    /// Tokens of `ids` whose text is known.
    read: usize,
    text: String,
    /// Bytes of `text` that have been handed out.
    told: usize,
    over: bool,
}

impl<'a> TextStream<'a> {
    /// A text that goes on after `prompt` and ends before the first of `stops`.
    pub fn new(tokenizer: &'a Tokenizer, prompt: &[u32], stops: &'a [String]) -> TextStream<'a> {
        TextStream {
            tokenizer,
            stops,
            ids: prompt.to_vec(),
            read: prompt.len(),
            text: String::new(),
            told: 0,
            over: false,
        }
    }

    /// Takes one more token; returns the text that is certain now, which may be none.
    pub fn push(&mut self, id: u32) -> Result<String> {
        self.ids.push(id);
        self.decode(false)?;
        Ok(self.tell(self.certain()))
    }

    /// What was held back, once no token follows.
    pub fn finish(&mut self) -> Result<String> {
        self.decode(true)?;
        Ok(self.tell(self.text.len()))
    }

    /// Whether a stop string has come.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// All text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn decode(&mut self, last: bool) -> Result<()> {
        if self.over {
            return Ok(());
        }
        let from = self.read.saturating_sub(CONTEXT);
        let before = self.tokenizer.decode(&self.ids[from..self.read])?;
        let all = self.tokenizer.decode(&self.ids[from..])?;
        let new = all.strip_prefix(before.as_str()).unwrap_or_default();
        if new.ends_with(UNFINISHED) && !last {
            return Ok(());
        }
        self.text.push_str(new);
        self.read = self.ids.len();
        let found = self.stops.iter().filter_map(|stop| self.text.find(stop));
        if let Some(at) = found.min() {
            self.text.truncate(at);
            self.over = true;
        }
        Ok(())
    }

    /// The end of the text that no stop string can begin in.
    fn certain(&self) -> usize {
        let begins = |at: &usize| {
            let rest = &self.text[*at..];
            self.stops.iter().any(|stop| stop.starts_with(rest))
        };
        let places = self.text.char_indices().map(|(at, _)| at);
        let mut places = places.filter(|at| *at >= self.told);
        match self.over {
            true => self.text.len(),
            false => places.find(begins).unwrap_or(self.text.len()),
        }
    }

    fn tell(&mut self, end: usize) -> String {
        let piece = self.text.get(self.told..end).unwrap_or_default().to_owned();
        self.told = self.told.max(end);
        piece
    }
}
