//! What a data file says, whatever its format: the type between reading and tokenizing.

use serde_json::{Map, Value};

/// One line, row or document of a data file.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub content: Content,
    /// Where it stands, for messages: `chat.jsonl line 41`.
    pub place: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Trained as a whole.
    Text(String),
    /// One text of which only the completion is learned, unless all is asked for. No chat template is applied.
    Completion {
        prompt: String,
        completion: String,
    },
    Chat(Conversation),
}

/// Messages for a chat template, with what else the template is given.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Objects with `role`, then `content`, then what else the file has, in its order (`tool_calls`, `reasoning_content`,
    /// `name`, `tool_call_id`, …). `role` is a string as the template knows it, usually `system`, `user`, `assistant` or
    /// `tool`. `content` is a string; null beside `tool_calls` where the file has none. Each of `tool_calls` is
    /// `{"type": "function", "function": {"name", "arguments"}}`, its arguments an object wherever their text is one.
    pub messages: Vec<Map<String, Value>>,
    /// The template's `tools`: a list of descriptions of functions.
    pub tools: Option<Value>,
    /// More variables for the template (TRL's `chat_template_kwargs`).
    pub template_kwargs: Map<String, Value>,
    /// The first message that may be learned: above 0 for a prompt and a completion that are lists of messages.
    pub first_completion: usize,
}

impl Conversation {
    /// The messages alone, all of which may be learned.
    pub fn new(messages: Vec<Map<String, Value>>) -> Conversation {
        Conversation {
            messages,
            tools: None,
            template_kwargs: Map::new(),
            first_completion: 0,
        }
    }

    /// Whether message `index` may be learned: not one of the prompt, nor one of `"weight": 0`, as OpenAI writes it.
    pub fn may_learn(&self, index: usize) -> bool {
        let weight = self.messages[index].get("weight").and_then(Value::as_f64);
        index >= self.first_completion && weight != Some(0.0)
    }
}

/// A record as tokens, before it is cut to length.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoded {
    pub ids: Vec<u32>,
    /// For each of `ids` whether it is learned, that is predicted from those before it; the first never is.
    pub learned: Vec<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_message_of_the_prompt_or_of_weight_zero_is_not_learned() {
        let message = |value: Value| value.as_object().unwrap().clone();
        let mut conversation = Conversation::new(vec![
            message(json!({"role": "assistant", "content": "a"})),
            message(json!({"role": "assistant", "content": "b", "weight": 0})),
            message(json!({"role": "assistant", "content": "c", "weight": 1})),
        ]);
        let learned = |of: &Conversation| [0, 1, 2].map(|index| of.may_learn(index));
        assert_eq!(learned(&conversation), [true, false, true]);
        conversation.first_completion = 1;
        assert_eq!(learned(&conversation), [false, false, true]);
    }
}
