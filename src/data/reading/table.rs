//! CSV and TSV with a header of named columns. RFC 4180: quoted fields may hold separators and line ends.

use serde_json::{Map, Value};

use super::Reading;
use super::shape::{COLUMNS, shape};
use crate::error;
use crate::error::Result;

/// Columns whose cells hold JSON.
const JSON: [&str; 4] = ["messages", "conversations", "tools", "history"];

/// The separator of a header: the one that occurs most.
pub fn separator(header: &str) -> u8 {
    let count = |separator: u8| header.bytes().filter(|byte| *byte == separator).count();
    let mut best = b',';
    for other in [b'\t', b';'] {
        if count(other) > count(best) {
            best = other;
        }
    }
    best
}

/// Whether a line is the header of a table of training data: at least two columns, all of them known.
pub fn is_header(line: &str) -> bool {
    let separator = char::from(separator(line));
    let columns: Vec<&str> = line
        .split(separator)
        .map(|column| column.trim().trim_matches('"'))
        .collect();
    columns.len() > 1 && columns.iter().all(|column| COLUMNS.contains(column))
}

pub fn read(text: &str, separator: u8, name: &str, reading: &mut Reading) -> Result<()> {
    let mut table = csv::ReaderBuilder::new()
        .delimiter(separator)
        .from_reader(text.as_bytes());
    let bad = |cause: csv::Error| {
        error!(BadData, "{name}: {cause}")
            .hint("every row needs a cell for every column; a cell with a separator or a line end stands in double quotes")
    };
    let columns: Vec<String> = table
        .headers()
        .map_err(bad)?
        .iter()
        .map(|column| column.trim().to_owned())
        .collect();
    if !columns
        .iter()
        .any(|column| COLUMNS.contains(&column.as_str()))
    {
        return Err(error!(
            BadData,
            "{name}: no known column in the header ({})",
            columns.join(", ")
        )
        .hint(format!(
            "name the columns in the first line: {}",
            COLUMNS.join(", ")
        )));
    }
    for row in table.records() {
        let row = row.map_err(bad)?;
        let line = row.position().map_or(0, |position| position.line());
        let mut object = Map::new();
        for (column, cell) in columns.iter().zip(row.iter()) {
            let value = match JSON.contains(&column.as_str()) {
                // A cell that should be JSON and is not is told as a text where a list is expected.
                true => serde_json::from_str(cell).unwrap_or_else(|_| cell.into()),
                false => cell.into(),
            };
            let is_empty = cell.is_empty();
            if !(is_empty && ["input", "system", "tools", "history"].contains(&column.as_str())) {
                object.insert(column.clone(), value);
            }
        }
        reading.take(format!("{name} line {line}"), shape(Value::Object(object)));
    }
    Ok(())
}
