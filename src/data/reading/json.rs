//! JSON: an object a line, or an array of objects, read one at a time.

use std::fmt;

use serde::Deserializer;
use serde::de::{SeqAccess, Visitor};
use serde_json::Value;

use super::Reading;
use super::shape::{Fault, shape};
use crate::error;
use crate::error::Result;

pub fn read_lines(text: &str, name: &str, reading: &mut Reading) -> Result<()> {
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let place = format!("{name} line {}", index + 1);
        let value = serde_json::from_str(line)
            .map_err(|cause| Fault::Bad(format!("not JSON: {}", at_column(&cause))));
        reading.take(place, value.and_then(shape));
    }
    Ok(())
}

/// The parser counts lines from the one it was given; only the column means something to the reader.
fn at_column(cause: &serde_json::Error) -> String {
    let text = cause.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what} at column {}", cause.column()),
        None => text,
    }
}

pub fn read_array(text: &str, name: &str, reading: &mut Reading) -> Result<()> {
    let mut parser = serde_json::Deserializer::from_str(text);
    parser
        .deserialize_seq(Items { name, reading })
        .and_then(|()| parser.end())
        .map_err(|cause| {
            error!(BadData, "{name}: not JSON: {cause}").hint(
                "a .json file holds an array of objects; one object a line makes a .jsonl file",
            )
        })
}

/// One object over many lines: a record, or the array that is its only list.
pub fn read_object(text: &str, name: &str, reading: &mut Reading) -> Result<()> {
    let value: Value = serde_json::from_str(text).map_err(|cause| {
        error!(BadData, "{name}: not JSON: {cause}")
            .hint("a .json file holds an array of objects; one object a line makes a .jsonl file")
    })?;
    reading.take(name.to_owned(), shape(value));
    Ok(())
}

/// Takes the items of an array as they are parsed, so that the whole is never in memory as values.
struct Items<'a> {
    name: &'a str,
    reading: &'a mut Reading,
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<(), A::Error> {
        let mut number = 0_usize;
        while let Some(value) = items.next_element::<Value>()? {
            number += 1;
            self.reading
                .take(format!("{} item {number}", self.name), shape(value));
        }
        Ok(())
    }
}
