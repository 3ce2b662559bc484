//! Data files as records, whatever their format: text, JSON lines and arrays, tables, and folders of these.
//! What a file is shows in its content; its name decides only where the content leaves a doubt.

mod alpaca;
mod chat;
mod file;
mod folder;
mod json;
mod shape;
mod table;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::data::Record;
use crate::error;
use crate::error::{Error, Result};

/// What a path holds.
#[derive(Debug, Default, PartialEq)]
pub struct Records {
    pub records: Vec<Record>,
    /// How many records have each format, by its name: `text`, `prompt and completion`, `messages`, …
    pub formats: BTreeMap<&'static str, usize>,
    /// Valid records with nothing to learn, and why.
    pub skipped: Vec<Skipped>,
    /// Files of a folder that hold no training data.
    pub passed_over: Vec<String>,
}

/// A record that is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    pub place: String,
    pub reason: String,
}

const FORMATS: &str = "text (.txt), JSONL or a JSON array of {\"text\"}, {\"prompt\", \"completion\"}, {\"messages\"}, \
    {\"instruction\", \"output\"} or {\"conversations\"}, CSV or TSV with such columns, or a folder of these";

/// Reads the records of the file or folder `path`.
///
/// Errors: no such file, not UTF-8, a format that is not known, lines that are not records (the first three are named),
/// nothing but records that are left out (likewise).
pub fn read(path: &Path) -> Result<Records> {
    let about = std::fs::metadata(path).map_err(|cause| Error::file("read", path, &cause))?;
    let mut reading = Reading::default();
    match about.is_dir() {
        true => folder::read(path, &mut reading)?,
        false => file::read(path, &file::name(path), &mut reading)?,
    }
    let records = reading.finish()?;
    if records.records.is_empty() {
        let what = path.display();
        return Err(match records.skipped.is_empty() {
            true => error!(BadData, "{what} holds no training data"),
            false => error!(
                BadData,
                "no record of {what} can be trained on: {}",
                list(&records.skipped)
            ),
        }
        .hint(format!("data can be {FORMATS}")));
    }
    Ok(records)
}

/// The first three as `place: reason`, and how many more there are.
pub fn list(skipped: &[Skipped]) -> String {
    let first: Vec<String> = skipped
        .iter()
        .take(3)
        .map(|Skipped { place, reason }| format!("{place}: {reason}"))
        .collect();
    let more = match skipped.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    format!("{}{more}", first.join("; "))
}

/// What has been read so far: problems are collected, so that the first three are told together.
#[derive(Default)]
struct Reading {
    records: Records,
    bad: Vec<Skipped>,
}

impl Reading {
    /// Takes what `shape` made of the record at `place`.
    fn take(&mut self, place: String, read: std::result::Result<shape::Shaped, shape::Fault>) {
        match read {
            Ok(shape::Shaped { content, format }) => {
                *self.records.formats.entry(format).or_default() += 1;
                self.records.records.push(Record { content, place });
            }
            Err(shape::Fault::Empty(reason)) => {
                self.records.skipped.push(Skipped { place, reason })
            }
            Err(shape::Fault::Bad(reason)) => self.bad.push(Skipped { place, reason }),
        }
    }

    fn finish(self) -> Result<Records> {
        match self.bad.is_empty() {
            true => Ok(self.records),
            false => Err(error!(BadData, "{}", list(&self.bad))
                .hint(format!("correct these lines; data can be {FORMATS}"))),
        }
    }
}

#[cfg(test)]
mod tests;
