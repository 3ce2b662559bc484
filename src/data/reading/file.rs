//! One file: what it is, and its records.

use std::path::Path;

use super::shape::{Fault, Shaped};
use super::{FORMATS, Reading, json, table};
use crate::data::Content;
use crate::error;
use crate::error::{Error, Result};

/// What the content of a file turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    JsonLines,
    JsonArray,
    /// One JSON value over many lines.
    JsonObject,
    Table(u8),
}

pub fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// Reads the file at `path`, called `name` in messages.
pub fn read(path: &Path, name: &str, reading: &mut Reading) -> Result<()> {
    let about = std::fs::metadata(path).map_err(|cause| Error::file("read", path, &cause))?;
    // Opening a pipe would wait for a writer that may never come, and some devices have no end.
    if !about.is_file() {
        return Err(error!(
            UnsupportedFormat,
            "{} is not a regular file",
            path.display()
        )
        .hint(format!("data can be {FORMATS}")));
    }
    let bytes = std::fs::read(path).map_err(|cause| Error::file("read", path, &cause))?;
    let text = utf8(&bytes, name)?;
    match kind(text, &extension(path), name)? {
        Kind::Text => {
            let read = match text.trim().is_empty() {
                true => Err(Fault::Empty("no text".to_owned())),
                false => Ok(Shaped {
                    content: Content::Text(text.to_owned()),
                    format: "text",
                }),
            };
            reading.take(name.to_owned(), read);
            Ok(())
        }
        Kind::JsonLines => json::read_lines(text, name, reading),
        Kind::JsonArray => json::read_array(text, name, reading),
        Kind::JsonObject => json::read_object(text, name, reading),
        Kind::Table(separator) => table::read(text, separator, name, reading),
    }
}

fn utf8<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|cause| {
        let at = cause.valid_up_to();
        let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        error!(BadData, "{name} line {line}: not UTF-8 text (byte {at})")
            .hint(format!("data can be {FORMATS}"))
    })
}

pub fn extension(path: &Path) -> String {
    let extension = path.extension().unwrap_or_default();
    extension.to_string_lossy().to_lowercase()
}

/// Extensions of files that are read as text when their content is nothing else.
pub const TEXT: [&str; 5] = ["", "txt", "text", "md", "markdown"];
pub const STRUCTURED: [&str; 5] = ["jsonl", "ndjson", "json", "csv", "tsv"];

fn kind(text: &str, extension: &str, name: &str) -> Result<Kind> {
    let first = text.lines().find(|line| !line.trim().is_empty());
    let first = first.unwrap_or_default().trim();
    let is_object = |line: &str| {
        let value = serde_json::from_str::<serde_json::Value>(line);
        value.is_ok_and(|value| value.is_object())
    };
    match extension {
        "jsonl" | "ndjson" if first.starts_with('[') && !first.ends_with(']') => {
            Ok(Kind::JsonArray)
        }
        "jsonl" | "ndjson" => Ok(Kind::JsonLines),
        "json" if first.starts_with('[') => Ok(Kind::JsonArray),
        "json" if is_object(first) => Ok(Kind::JsonLines),
        "json" => Ok(Kind::JsonObject),
        "tsv" => Ok(Kind::Table(b'\t')),
        "csv" => Ok(Kind::Table(table::separator(first))),
        _ if is_object(first) => Ok(Kind::JsonLines),
        _ if TEXT.contains(&extension) => Ok(match table::is_header(first) {
            true => Kind::Table(table::separator(first)),
            false => Kind::Text,
        }),
        other => Err(error!(
            UnsupportedFormat,
            "{name}: .{other} files cannot be trained on"
        )
        .hint(format!("data can be {FORMATS}"))),
    }
}
