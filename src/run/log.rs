//! Events on their way out: to the caller, as JSON lines to files, and to what shows the run.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::run::report::Report;
use crate::run::tensorboard::EventFile;
use crate::train::{Event, Listener};

/// Passes events on and writes each to its files.
pub struct Log<'a> {
    listener: &'a dyn Listener,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    files: Vec<EventWriter>,
    /// Lines before the start of the run, for files that are added later: none of them misses a warning.
    before_start: Vec<u8>,
}

/// What becomes of an event besides telling it.
enum EventWriter {
    /// One JSON object a line.
    Lines(File),
    Report(Box<Report>),
    TensorBoard(EventFile),
}

impl EventWriter {
    /// `line` is the event as JSON, with a line end.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            EventWriter::Lines(file) => file.write_all(line),
            EventWriter::Report(report) => report.event(line),
            EventWriter::TensorBoard(file) => file.event(line),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            EventWriter::Lines(_) => "the event log",
            EventWriter::Report(_) => "report.html",
            EventWriter::TensorBoard(_) => "the file for TensorBoard",
        }
    }
}

impl<'a> Log<'a> {
    pub fn new(listener: &'a dyn Listener) -> Log<'a> {
        Log {
            listener,
            written: Mutex::default(),
        }
    }

    /// Also writes to the file at `path`; what was told before comes first. The file is replaced, or, in a run that goes
    /// on after the step `resumed`, continued after what it has of that step and the ones before.
    pub fn add_file(&self, path: &Path, resumed: Option<usize>) -> Result<()> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(resumed.is_none())
            .open(path);
        let failed = |cause| Error::file("write", path, &cause);
        let mut file = file.map_err(failed)?;
        if let Some(step) = resumed {
            let end = end_of_step(&file, step).map_err(failed)?;
            file.set_len(end).map_err(failed)?;
            file.seek(SeekFrom::Start(end)).map_err(failed)?;
        }
        let mut written = self.written();
        file.write_all(&written.before_start).map_err(failed)?;
        written.files.push(EventWriter::Lines(file));
        Ok(())
    }

    /// Also writes a report, which has read what was told before.
    pub fn add_report(&self, report: Report) {
        self.written()
            .files
            .push(EventWriter::Report(Box::new(report)));
    }

    /// Also writes for TensorBoard.
    pub fn add_event_file(&self, file: EventFile) {
        self.written().files.push(EventWriter::TensorBoard(file));
    }

    /// Tells the report that the run has ended with `error`.
    pub fn failed(&self, error: &Error) {
        for file in &mut self.written().files {
            if let EventWriter::Report(report) = file {
                // The error itself is told to the caller; nothing more can be done for the page.
                let _ = report.failed(error);
            }
        }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the lines up to those of `step` end in a file of events: before the first line of a later step, the `end` of a
/// run, or a line that was cut off.
fn end_of_step(file: &File, step: usize) -> io::Result<u64> {
    let (mut reader, mut line, mut end) = (BufReader::new(file), Vec::new(), 0);
    while reader.read_until(b'\n', &mut line)? > 0 {
        let event: Value = match serde_json::from_slice(&line) {
            Ok(event) if line.ends_with(b"\n") => event,
            _ => break,
        };
        let later = event["step"].as_u64().is_some_and(|at| at > step as u64);
        if later || event["type"] == "end" {
            break;
        }
        end += line.len() as u64;
        line.clear();
    }
    Ok(end)
}

impl Listener for Log<'_> {
    /// A file that cannot be written any more is given up with a warning; the run goes on.
    fn event(&self, event: &Event) {
        self.listener.event(event);
        let Ok(mut line) = serde_json::to_vec(event) else {
            return;
        };
        line.push(b'\n');
        let mut written = self.written();
        match event {
            Event::Start { .. } => written.before_start = Vec::new(),
            Event::Warning { .. } | Event::Data { .. } if written.files.is_empty() => {
                written.before_start.extend(&line);
            }
            _ => (),
        }
        written.files.retain_mut(|file| match file.write(&line) {
            Ok(()) => true,
            Err(cause) => {
                let message = format!("{} cannot be written any more: {cause}", file.name());
                self.listener.event(&Event::Warning {
                    code: "IO",
                    message,
                });
                false
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Deaf;

    impl Listener for Deaf {
        fn event(&self, _: &Event) {}
    }

    #[test]
    fn a_continued_file_loses_what_comes_after_the_step() {
        let kept = "{\"type\":\"start\"}\n{\"type\":\"step\",\"step\":1}\n{\"type\":\"step\",\"step\":2}\n{\"type\":\"eval\",\"step\":2}\n";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        for rest in [
            "",
            "{\"type\":\"step\",\"step\":3}\n{\"type\":\"step\",\"step\":4}\n",
            "{\"type\":\"end\",\"steps\":2}\n",
            "{\"type\":\"step\",\"st",
            "{\"type\":\"warning\"}",
            "\0\0\0\n",
        ] {
            std::fs::write(&path, format!("{kept}{rest}")).unwrap();
            let log = Log::new(&Deaf);
            log.add_file(&path, Some(2)).unwrap();
            log.event(&Event::Save {
                step: 3,
                path: "x".to_owned(),
            });
            let text = std::fs::read_to_string(&path).unwrap();
            let added = "{\"type\":\"save\",\"step\":3,\"path\":\"x\"}\n";
            assert_eq!(text, format!("{kept}{added}"), "{rest}");
        }
    }
}
