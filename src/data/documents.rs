//! Text files as documents: a `.txt` file is one, a `.jsonl` file has one `{"text": …}` a line.

use std::path::Path;

use serde_json::Value;

use crate::bail;
use crate::error;
use crate::error::{Error, Result};

/// A text and where it stands, for messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub text: String,
    pub place: String,
}

/// What a file holds.
#[derive(Debug, PartialEq)]
pub struct Documents {
    pub documents: Vec<Document>,
    /// Places of empty texts, which are left out.
    pub empty: Vec<String>,
}

const FORMATS: &str =
    "this version reads .txt (one document) and .jsonl with one {\"text\": \"…\"} a line";

/// Reads the documents of `path`.
///
/// Errors: no such file, not UTF-8, an unknown kind of file, lines that are not `{"text"}` (the first three are named),
/// nothing but empty texts.
pub fn read(path: &Path) -> Result<Documents> {
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned();
    let about = std::fs::metadata(path).map_err(|cause| Error::file("read", path, &cause))?;
    // Opening a pipe would wait for a writer that may never come, and some devices have no end.
    if !about.is_file() {
        let what = match about.is_dir() {
            true => "a directory",
            false => "not a regular file",
        };
        return Err(error!(UnsupportedFormat, "{} is {what}", path.display()).hint(FORMATS));
    }
    let bytes = std::fs::read(path).map_err(|cause| Error::file("read", path, &cause))?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(cause) => {
            let at = cause.valid_up_to();
            let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            return Err(
                error!(BadData, "{name} line {line}: not UTF-8 text (byte {at})").hint(FORMATS),
            );
        }
    };
    let extension = path
        .extension()
        .map(|extension| extension.to_string_lossy().to_lowercase());
    let all = match extension.as_deref() {
        Some("jsonl" | "ndjson") => read_lines(text, &name)?,
        Some("txt" | "text" | "md") | None => vec![Document {
            text: text.to_owned(),
            place: name.clone(),
        }],
        Some(other) => {
            return Err(error!(
                UnsupportedFormat,
                "{name}: .{other} files cannot be trained on"
            )
            .hint(FORMATS));
        }
    };
    let (documents, empty): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|document| !document.text.trim().is_empty());
    if documents.is_empty() {
        bail!(BadData, "{name} has no text to train on");
    }
    let empty = empty.into_iter().map(|document| document.place).collect();
    Ok(Documents { documents, empty })
}

fn read_lines(text: &str, name: &str) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    let mut bad = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let place = format!("{name} line {}", index + 1);
        match read_line(line) {
            Ok(text) => documents.push(Document { text, place }),
            Err(reason) => bad.push(format!("{place}: {reason}")),
        }
    }
    if bad.is_empty() {
        return Ok(documents);
    }
    let more = match bad.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    bad.truncate(3);
    Err(error!(BadData, "{}{more}", bad.join("; ")).hint(FORMATS))
}

/// The text of one line, or what is wrong with it.
fn read_line(line: &str) -> std::result::Result<String, String> {
    let value: Value = serde_json::from_str(line).map_err(|cause| format!("not JSON: {cause}"))?;
    let Value::Object(mut fields) = value else {
        return Err("not an object".to_owned());
    };
    match fields.remove("text") {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err("\"text\" is not a string".to_owned()),
        None => {
            let found: Vec<String> = fields
                .keys()
                .take(4)
                .map(|key| format!("{key:?}"))
                .collect();
            Err(format!("no \"text\", only {}", found.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        (dir, path)
    }

    #[test]
    fn a_text_file_is_one_document_without_its_byte_order_mark() {
        let (_dir, path) = file("a.txt", "\u{feff}one\r\n\r\ntwo\n".as_bytes());
        let read = read(&path).unwrap();
        assert_eq!(read.documents[0].text, "one\r\n\r\ntwo\n");
        assert_eq!(read.documents.len(), 1);
    }

    #[test]
    fn lines_are_documents_and_empty_ones_are_named() {
        let (_dir, path) = file(
            "a.jsonl",
            b"{\"text\":\"one\"}\n\n{\"text\":\"  \"}\n{\"text\":\"two\",\"id\":7}\n",
        );
        let read = read(&path).unwrap();
        let texts: Vec<&str> = read
            .documents
            .iter()
            .map(|document| document.text.as_str())
            .collect();
        assert_eq!(texts, ["one", "two"]);
        assert_eq!(read.documents[1].place, "a.jsonl line 4");
        assert_eq!(read.empty, ["a.jsonl line 3"]);
    }

    #[test]
    fn the_first_three_bad_lines_are_named_with_reasons() {
        let (_dir, path) = file(
            "a.jsonl",
            b"{\"messages\":[]}\n[1]\n{\"text\":3}\n{\n{\"text\":\"good\"}\n",
        );
        let error = read(&path).unwrap_err();
        assert_eq!(
            error.message,
            "a.jsonl line 1: no \"text\", only \"messages\"; a.jsonl line 2: not an object; a.jsonl line 3: \"text\" is not a string (and 1 more)"
        );
    }

    #[test]
    fn other_files_are_refused_by_name() {
        for (name, content) in [
            ("a.pdf", &b"%PDF"[..]),
            ("a.txt", &b"ok\n\xff\xfe"[..]),
            ("a.txt", b" \n"),
            ("a.csv", b"x"),
        ] {
            let (_dir, path) = file(name, content);
            assert!(read(&path).unwrap_err().message.starts_with(name), "{name}");
        }
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.message, "/dev/zero is not a regular file");
        assert!(
            read(Path::new("/nowhere.txt"))
                .unwrap_err()
                .message
                .contains("/nowhere.txt")
        );
    }
}
