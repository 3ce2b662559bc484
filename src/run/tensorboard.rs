//! Event files for TensorBoard: the numbers of a run as its `Event` messages, in the records of a TFRecord file.
//!
//! Record: length as u64, masked CRC-32C of the length, the message, masked CRC-32C of the message; little-endian.
//! Source: tensorflow/core/lib/io/record_writer.h; event.proto, summary.proto and tensor.proto of tensorflow.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crc::{CRC_32_ISCSI, Crc, Table};
use serde_json::Value;

use crate::error;
use crate::error::{Error, Result};

static CRC: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&CRC_32_ISCSI);

/// Tags by event and member.
const SCALARS: [(&str, &str, &str); 7] = [
    ("step", "loss", "train/loss"),
    ("step", "lr", "train/lr"),
    ("step", "gradNorm", "train/grad_norm"),
    ("step", "tokensPerSecond", "train/tokens_per_second"),
    ("step", "memoryBytes", "train/memory_bytes"),
    ("eval", "loss", "eval/loss"),
    ("eval", "perplexity", "eval/perplexity"),
];

/// The event file of one run, or of one part of a run that goes on.
pub struct EventFile {
    file: File,
}

impl EventFile {
    /// A new file in `directory`, which is made if need be, for a run with `settings` that goes on after the step `resumed`.
    ///
    /// What TensorBoard has of later steps from older files there is hidden: those steps are done again. The other
    /// numbers stay.
    pub fn create(directory: &Path, settings: &Value, resumed: Option<usize>) -> Result<EventFile> {
        fs::create_dir_all(directory).map_err(|cause| {
            error!(
                Io,
                "cannot make the folder of --tensorboard {}: {cause}",
                directory.display()
            )
            .hint("choose another --tensorboard")
        })?;
        let mut number = 0;
        let (path, file) = loop {
            // The order of the names is the order of reading, and seconds may be the same.
            let seconds = now().as_secs();
            let process = std::process::id();
            let name = format!("events.out.tfevents.{seconds}.amv-train.{number}.{process}");
            let path = directory.join(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => break (path, file),
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(cause) => return Err(Error::file("write", &path, &cause)),
            }
        };
        let first = resumed.map_or(0, |step| step + 1);
        let mut events = EventFile { file };
        let version = Message::new().bytes(3, b"brain.Event:2");
        let session = Message::new().message(7, &Message::new().number(1, 1)); // status: START
        let text = text_summary("settings", &as_table(settings));
        events
            .write(0, &version)
            .and_then(|()| events.write(first, &session))
            .and_then(|()| events.write(first, &Message::new().message(5, &text)))
            .map_err(|cause| Error::file("write", &path, &cause))?;
        Ok(events)
    }

    /// Writes the numbers of an event, a JSON object; those that are not finite are left out.
    pub fn event(&mut self, line: &[u8]) -> io::Result<()> {
        let event: Value = serde_json::from_slice(line)?;
        let Some(step) = event["step"].as_u64() else {
            return Ok(());
        };
        let mut summary = Message::new();
        for (kind, member, tag) in SCALARS {
            let value = event[member].as_f64().filter(|_| event["type"] == kind);
            if let Some(value) = value {
                let value = Message::new()
                    .bytes(1, tag.as_bytes())
                    .float(2, value as f32);
                summary = summary.message(1, &value);
            }
        }
        match summary.0.is_empty() {
            true => Ok(()),
            false => self.write(step as usize, &Message::new().message(5, &summary)),
        }
    }

    /// One record: `what` with time and step.
    fn write(&mut self, step: usize, what: &Message) -> io::Result<()> {
        let mut event = Message::new()
            .double(1, now().as_secs_f64())
            .number(2, step as u64);
        event.0.extend(&what.0);
        self.file.write_all(&record(&event.0))
    }
}

/// The settings as a table in Markdown, which the text plugin shows.
fn as_table(settings: &Value) -> String {
    let mut table = String::from("| option | value |\n| --- | --- |\n");
    for (name, value) in settings.as_object().into_iter().flatten() {
        if !value.is_null() {
            let value = value.to_string().replace('|', "\\|");
            table.push_str(&format!("| {name} | {value} |\n"));
        }
    }
    table
}

/// A `Summary` with one text.
fn text_summary(tag: &str, text: &str) -> Message {
    const DT_STRING: u64 = 7;
    let shape = Message::new().message(2, &Message::new().number(1, 1));
    let tensor = Message::new()
        .number(1, DT_STRING)
        .message(2, &shape)
        .bytes(8, text.as_bytes());
    let plugin = Message::new().bytes(1, b"text");
    let value = Message::new()
        .bytes(1, tag.as_bytes())
        .message(8, &tensor)
        .message(9, &Message::new().message(1, &plugin));
    Message::new().message(1, &value)
}

fn now() -> std::time::Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let parts: [&[u8]; 4] = [&length, &masked_crc(&length), data, &masked_crc(data)];
    parts.concat()
}

/// Rotated and moved, so that the checksum of data with a checksum in it is a good one.
fn masked_crc(data: &[u8]) -> [u8; 4] {
    let crc = CRC.checksum(data);
    crc.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// The bytes of a protocol buffer message.
struct Message(Vec<u8>);

impl Message {
    fn new() -> Message {
        Message(Vec::new())
    }

    fn varint(mut self, mut value: u64) -> Message {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    /// The key of a field: its number and how its value is written.
    fn key(self, field: u64, wire: u64) -> Message {
        self.varint(field << 3 | wire)
    }

    fn number(self, field: u64, value: u64) -> Message {
        self.key(field, 0).varint(value)
    }

    fn double(self, field: u64, value: f64) -> Message {
        let mut message = self.key(field, 1);
        message.0.extend(value.to_le_bytes());
        message
    }

    fn float(self, field: u64, value: f32) -> Message {
        let mut message = self.key(field, 5);
        message.0.extend(value.to_le_bytes());
        message
    }

    fn bytes(self, field: u64, value: &[u8]) -> Message {
        let mut message = self.key(field, 2).varint(value.len() as u64);
        message.0.extend(value);
        message
    }

    fn message(self, field: u64, value: &Message) -> Message {
        self.bytes(field, &value.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first record of every file that TensorFlow writes: an `Event` with file_version, here at time 0.
    #[test]
    fn a_record_is_what_tensorflow_writes() {
        // CRC-32C of "123456789" is 0xe3069283: RFC 3720, B.4.
        assert_eq!(CRC.checksum(b"123456789"), 0xe306_9283);
        let event = Message::new().double(1, 0.0).bytes(3, b"brain.Event:2");
        assert_eq!(
            event.0, b"\x09\0\0\0\0\0\0\0\0\x1a\x0dbrain.Event:2",
            "field 1 as 64 bits, field 3 as 13 bytes"
        );
        let record = record(&event.0);
        assert_eq!(record[..8], 24_u64.to_le_bytes());
        // Of the eight bytes of the length 24: every event file of TensorFlow begins with them.
        assert_eq!(record[8..12], [0xa3, 0x7f, 0x4b, 0x22]);
        assert_eq!(record.len(), 8 + 4 + 24 + 4);
    }

    #[test]
    fn varints_have_seven_bits_a_byte() {
        assert_eq!(Message::new().varint(300).0, [0xac, 0x02]);
        assert_eq!(Message::new().number(2, 5).0, [0x10, 5]);
    }
}
