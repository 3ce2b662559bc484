//! What chat templates expect of Python: `tojson` as `json.dumps`, `str()` of lists and dictionaries, `strip` of Python's white
//! space. Everything else is minijinja's own, or its `pycompat`.

use minijinja::value::{Kwargs, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use serde_json::Value as Json;

/// Widest indent of `tojson`: its result is paid for only once it exists.
const WIDEST: usize = 64;

/// `json.dumps(value, ensure_ascii=False)` as transformers gives it to templates: no HTML escapes, `", "` and `": "`.
pub fn tojson(value: &Value, args: Kwargs) -> Result<String, Error> {
    let ascii = args.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let indent: Option<usize> = args.get("indent")?;
    if indent.is_some_and(|indent| indent > WIDEST) {
        let message = format!("an indent of more than {WIDEST} spaces");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    let separators: Option<Vec<String>> = args.get("separators")?;
    let sorted = args.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    args.assert_all_used()?;
    let comma = if indent.is_some() { "," } else { ", " };
    let style = Style {
        item: separators
            .as_ref()
            .and_then(|pair| pair.first())
            .map_or(comma, String::as_str),
        key: separators
            .as_ref()
            .and_then(|pair| pair.get(1))
            .map_or(": ", String::as_str),
        indent,
        sorted,
        text: if ascii { ascii_json } else { plain_json },
        names: ["null", "true", "false"],
    };
    let mut out = String::new();
    style.write(&json(value)?, 0, &mut out);
    Ok(out)
}

/// What `{{ value }}` prints: `str(value)`.
pub fn str_of(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Map | ValueKind::Seq => {
            let style = Style {
                item: ", ",
                key: ": ",
                indent: None,
                sorted: false,
                text: repr,
                names: ["None", "True", "False"],
            };
            let mut out = String::new();
            style.write(&json(value)?, 0, &mut out);
            Ok(out)
        }
        ValueKind::Number => match json(value)? {
            Json::Number(number) => Ok(python_number(&number.to_string())),
            _ => Ok(value.to_string()),
        },
        _ => Ok(value.to_string()),
    }
}

/// Python's methods of text, lists and dictionaries.
pub fn method(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let (Some(text), true) = (value.as_str(), args.is_empty()) {
        match method {
            "strip" => return Ok(text.trim_matches(is_space).into()),
            "lstrip" => return Ok(text.trim_start_matches(is_space).into()),
            "rstrip" => return Ok(text.trim_end_matches(is_space).into()),
            _ => (),
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}

/// The filter `trim`: `str(value).strip(chars)`.
pub fn trim(value: &Value, args: minijinja::value::Rest<Value>) -> Result<String, Error> {
    let (chars,): (Option<&str>,) = from_args(&args)?;
    let text = str_of(value)?;
    Ok(match chars {
        None => text.trim_matches(is_space).to_owned(),
        Some(chars) => text.trim_matches(|c| chars.contains(c)).to_owned(),
    })
}

/// `str.isspace` of one character: Unicode's white space and four separators of ASCII.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn json(value: &Value) -> Result<Json, Error> {
    if value.is_undefined() {
        let message = "an undefined value has no JSON form";
        return Err(Error::new(ErrorKind::UndefinedError, message));
    }
    serde_json::to_value(value).map_err(|cause| {
        Error::new(
            ErrorKind::BadSerialization,
            format!("cannot be written as JSON: {cause}"),
        )
    })
}

struct Style<'a> {
    item: &'a str,
    key: &'a str,
    indent: Option<usize>,
    sorted: bool,
    text: fn(&str, &mut String),
    /// Nothing, truth and falsehood.
    names: [&'static str; 3],
}

impl Style<'_> {
    fn write(&self, value: &Json, depth: usize, out: &mut String) {
        match value {
            Json::Null => out.push_str(self.names[0]),
            Json::Bool(truth) => out.push_str(self.names[if *truth { 1 } else { 2 }]),
            Json::Number(number) => out.push_str(&python_number(&number.to_string())),
            Json::String(text) => (self.text)(text, out),
            Json::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.before(index, depth + 1, out);
                    self.write(item, depth + 1, out);
                }
                self.close(items.is_empty(), depth, out);
                out.push(']');
            }
            Json::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                if self.sorted {
                    fields.sort_by_key(|(key, _)| *key);
                }
                out.push('{');
                for (index, (key, item)) in fields.iter().enumerate() {
                    self.before(index, depth + 1, out);
                    (self.text)(key, out);
                    out.push_str(self.key);
                    self.write(item, depth + 1, out);
                }
                self.close(fields.is_empty(), depth, out);
                out.push('}');
            }
        }
    }

    fn before(&self, index: usize, depth: usize, out: &mut String) {
        if index > 0 {
            out.push_str(self.item);
        }
        self.line(depth, out);
    }

    fn close(&self, empty: bool, depth: usize, out: &mut String) {
        if !empty {
            self.line(depth, out);
        }
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }
}

/// Rust writes an exponent as 1e16 and 1e-7, Python as 1e+16 and 1e-07.
fn python_number(text: &str) -> String {
    match text.split_once('e') {
        None => text.to_owned(),
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent.trim_start_matches('+')),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
    }
}

fn plain_json(text: &str, out: &mut String) {
    out.push_str(&Json::from(text).to_string());
}

fn ascii_json(text: &str, out: &mut String) {
    for c in Json::from(text).to_string().chars() {
        match c.is_ascii() {
            true => out.push(c),
            false => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
}

/// `repr(text)`: single quotes, or double ones around a text that has only single ones.
fn repr(text: &str, out: &mut String) {
    let quote = match text.contains('\'') && !text.contains('"') {
        true => '"',
        false => '\'',
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push(quote);
}
