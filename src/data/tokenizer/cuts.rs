//! Cuts long texts where the parts give the ids of the whole, so that memory stays small and threads share the work.
//!
//! Hugging Face keeps about 130 bytes per byte of a text while it encodes it. A place is safe when every step of the
//! tokenizer ends there anyway and decides the same without seeing the other side:
//!
//! * After a newline that follows a visible ASCII character and precedes an ASCII letter. The known patterns all end a match
//!   there: they join newlines to white space (here just this newline) or to punctuation before them, never to a letter.
//!   NFC composes nothing across it. In a BPE over whole texts no token may hold a newline and a letter after it.
//! * At a space between an ASCII letter or digit and an ASCII letter, where every text gets a space in front: the part after
//!   it loses its own space and gets that one. No token may span the place ([`super::words`] has the argument).
//!
//! In both cases no added token may match across the place or look past it.

use serde_json::{Value, json};
use tokenizers::{AddedToken, ModelWrapper};

use super::words;
use crate::format::tokenizer::is_known_pattern;

/// Parts are at least this long, in bytes; texts shorter than two of them stay whole.
const PART: usize = 1 << 18;

/// Where the texts of a tokenizer may be cut.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cuts {
    Nowhere,
    AfterNewlines,
    AtSpaces,
}

impl Cuts {
    /// What is proven for `tokenizer`; one with a step that is not recognised is cut nowhere.
    pub fn of(tokenizer: &tokenizers::Tokenizer) -> Cuts {
        let ModelWrapper::BPE(model) = tokenizer.get_model() else {
            return Cuts::Nowhere;
        };
        let added = tokenizer.get_added_tokens_decoder();
        let normalizer = serde_json::to_value(tokenizer.get_normalizer()).unwrap_or_default();
        let steps = steps(serde_json::to_value(tokenizer.get_pre_tokenizer()).unwrap_or_default());
        let spaces = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});

        let newlines = added.values().all(matches_within_lines);
        let byte_level = steps.iter().any(|step| step["type"] == "ByteLevel")
            && steps.iter().all(cuts_at_newlines)
            && !model.byte_fallback
            && model.dropout.is_none();
        if byte_level && newlines && (normalizer.is_null() || normalizer == json!({"type": "NFC"}))
        {
            return Cuts::AfterNewlines;
        }

        // From here on: a BPE over whole texts, with `▁` for spaces.
        let Some(left) = words::spanned(model) else {
            return Cuts::Nowhere;
        };
        let whole = steps
            .iter()
            .all(|step| step["pattern"] == json!({"String": " "}));
        if whole && newlines && normalizer == spaces {
            let spans = model
                .get_vocab()
                .keys()
                .any(|text| newline_then_letter(text));
            return if spans {
                Cuts::Nowhere
            } else {
                Cuts::AfterNewlines
            };
        }
        let prepend = json!({"type": "Prepend", "prepend": "▁"});
        let prefixed = steps.is_empty()
            && normalizer == json!({"type": "Sequence", "normalizers": [prepend, spaces]})
            || normalizer.is_null() && matches!(&*steps, [step] if prefixes_whole_texts(step));
        let clear = !left.iter().any(char::is_ascii_alphanumeric);
        match prefixed && clear && added.values().all(matches_apart_from_words) {
            true => Cuts::AtSpaces,
            false => Cuts::Nowhere,
        }
    }

    /// The parts of `text`, in order. After [`Cuts::AtSpaces`] the space between two parts is in neither.
    pub fn parts(self, text: &str) -> Vec<&str> {
        self.parts_of(text, PART)
    }

    /// Parts of at least `least` bytes.
    fn parts_of(self, text: &str, least: usize) -> Vec<&str> {
        let place: fn(&[u8]) -> bool = match self {
            Cuts::Nowhere => return vec![text],
            Cuts::AfterNewlines => {
                |at| at[0].is_ascii_graphic() && at[1] == b'\n' && at[2].is_ascii_alphabetic()
            }
            Cuts::AtSpaces => {
                |at| at[0].is_ascii_alphanumeric() && at[1] == b' ' && at[2].is_ascii_alphabetic()
            }
        };
        let mut parts = Vec::new();
        let mut start = 0;
        while text.len() - start >= 2 * least {
            let from = start + least;
            let Some(found) = text.as_bytes()[from..].windows(3).position(place) else {
                break;
            };
            let next = from + found + 2;
            let end = if self == Cuts::AtSpaces {
                next - 1
            } else {
                next
            };
            parts.push(&text[start..end]);
            start = next;
        }
        parts.push(&text[start..]);
        parts
    }
}

/// The steps of a pre-tokenizer in a row.
fn steps(pre_tokenizer: Value) -> Vec<Value> {
    match pre_tokenizer {
        Value::Null => Vec::new(),
        mut step if step["type"] == "Sequence" => match step["pretokenizers"].take() {
            Value::Array(list) => list.into_iter().flat_map(steps).collect(),
            other => vec![other],
        },
        step => vec![step],
    }
}

fn cuts_at_newlines(step: &Value) -> bool {
    match step["type"].as_str() {
        Some("ByteLevel") => step["add_prefix_space"] == false,
        Some("Digits") => true,
        Some("Split") => {
            // Matches become pieces; what lies between them too, or there is nothing between them.
            let pieces = (&step["behavior"], &step["invert"]);
            let keeps = pieces == (&json!("Isolated"), &json!(false))
                || pieces == (&json!("Removed"), &json!(true));
            keeps
                && step["pattern"]["Regex"]
                    .as_str()
                    .is_some_and(is_known_pattern)
        }
        _ => false,
    }
}

/// Metaspace as transformers 5 saves it for Llama.
fn prefixes_whole_texts(step: &Value) -> bool {
    step["type"] == "Metaspace"
        && step["replacement"] == "▁"
        && step["split"] == false
        && (step["prepend_scheme"] == "always" || step["prepend_scheme"] == "first")
}

fn newline_then_letter(text: &str) -> bool {
    let pair = |at: &[u8]| at[0] == b'\n' && at[1].is_ascii_alphabetic();
    text.as_bytes().windows(2).any(pair)
}

fn matches_within_lines(token: &AddedToken) -> bool {
    let strips_newline =
        token.lstrip && token.content.starts_with(|c: char| c.is_ascii_alphabetic());
    !token.single_word && !strips_newline && !newline_then_letter(&token.content)
}

fn matches_apart_from_words(token: &AddedToken) -> bool {
    !token.single_word
        && !token.content.contains([' ', '▁'])
        && !token.content.starts_with(|c: char| c.is_ascii_alphabetic())
        && !token.content.ends_with(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tests::torture;
    use super::*;

    fn fixture(name: &str) -> tokenizers::Tokenizer {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = root.join("__test__/fixtures/tokenizers").join(name);
        tokenizers::Tokenizer::from_file(path.join("tokenizer.json")).unwrap()
    }

    /// 60 kB: the torture lines in changing order, joined by what a cut looks for and by what it must avoid.
    fn long_text() -> String {
        let lines = torture();
        let joints = [
            "\n", " ", "a\nb", "a b", ".\nThe ", "1 x", "\n\n", "  ", "</s> x", "\r\n",
        ];
        let mut text = String::new();
        let mut state = 1usize;
        while text.len() < 60_000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            text.push_str(&lines[(state >> 33) % lines.len()]);
            text.push_str(joints[(state >> 41) % joints.len()]);
        }
        text
    }

    fn assert_same(whole: &tokenizers::Tokenizer, cuts: Cuts, name: &str) {
        let text = long_text();
        let mut words = whole.clone();
        words::split(&mut words).unwrap();
        let parts = cuts.parts_of(&text, 500);
        assert!(parts.len() > 50, "{name}: {} parts", parts.len());
        let mut ids: Vec<u32> = Vec::new();
        for part in parts {
            ids.extend(words.encode_fast(part, false).unwrap().get_ids());
        }
        let whole = whole.encode_fast(text.as_str(), false).unwrap();
        assert!(ids == whole.get_ids(), "{name}");
    }

    #[test]
    fn parts_give_the_ids_of_the_whole() {
        let expected = [
            ("gpt2", Cuts::AfterNewlines),
            ("smollm", Cuts::AfterNewlines),
            ("llama3", Cuts::AfterNewlines),
            ("qwen2", Cuts::AfterNewlines),
            ("tekken", Cuts::AfterNewlines),
            ("phi4mini", Cuts::AfterNewlines),
            ("gemma2", Cuts::AfterNewlines),
            ("gemma3", Cuts::AfterNewlines),
            ("llama2", Cuts::AtSpaces),
            ("phi3", Cuts::AtSpaces),
        ];
        for (name, cuts) in expected {
            let inner = fixture(name);
            assert_eq!(Cuts::of(&inner), cuts, "{name}");
            assert_same(&inner, cuts, name);
        }
    }

    #[test]
    fn metaspace_prefixes_the_first_part_alone_or_every_part() {
        for scheme in ["first", "always"] {
            let mut value = serde_json::to_value(fixture("llama2")).unwrap();
            value["normalizer"] = Value::Null;
            value["pre_tokenizer"] = json!({"type": "Metaspace", "replacement": "▁",
                "prepend_scheme": scheme, "split": false});
            let inner: tokenizers::Tokenizer = value.to_string().parse().unwrap();
            assert_eq!(Cuts::of(&inner), Cuts::AtSpaces);
            assert_same(&inner, Cuts::AtSpaces, scheme);
        }
    }

    #[test]
    fn what_could_match_across_a_cut_forbids_it() {
        let with = |name: &str, token: AddedToken| {
            let mut tokenizer = fixture(name);
            tokenizer.add_tokens([token]).unwrap();
            Cuts::of(&tokenizer)
        };
        let token = |content: &str| AddedToken::from(content, true);
        assert_eq!(with("gpt2", token("<x>")), Cuts::AfterNewlines);
        assert_eq!(with("gpt2", token("<x>").single_word(true)), Cuts::Nowhere);
        assert_eq!(with("gpt2", token("a\nb")), Cuts::Nowhere);
        assert_eq!(with("gpt2", token("b").lstrip(true)), Cuts::Nowhere);
        assert_eq!(with("llama2", token("[x]")), Cuts::AtSpaces);
        assert_eq!(with("llama2", token("x>")), Cuts::Nowhere);
        assert_eq!(with("llama2", token("<x")), Cuts::Nowhere);
        assert_eq!(with("llama2", token("[a b]")), Cuts::Nowhere);
    }

    #[test]
    fn a_text_without_a_place_stays_whole() {
        let text = "x".repeat(3 * PART);
        assert_eq!(Cuts::AfterNewlines.parts(&text), [text.as_str()]);
        assert_eq!(Cuts::AtSpaces.parts("a b\nc"), ["a b\nc"]);
    }
}
