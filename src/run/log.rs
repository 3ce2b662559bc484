//! Events on their way out: to the caller, and as JSON lines to files.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::train::{Event, Listener};

/// Passes events on and writes each to its files, one JSON object a line.
pub struct Log<'a> {
    listener: &'a dyn Listener,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    files: Vec<File>,
    /// Lines before the start of the run, for files that are added later: none of them misses a warning.
    before_start: Vec<u8>,
}

impl<'a> Log<'a> {
    pub fn new(listener: &'a dyn Listener) -> Log<'a> {
        Log {
            listener,
            written: Mutex::default(),
        }
    }

    /// Also writes to the file at `path`, which is replaced; what was told before comes first.
    pub fn add_file(&self, path: &Path) -> Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(path);
        let failed = |cause| Error::file("write", path, &cause);
        let mut file = file.map_err(failed)?;
        let mut written = self.written();
        file.write_all(&written.before_start).map_err(failed)?;
        written.files.push(file);
        Ok(())
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
            Event::Warning { .. } if written.files.is_empty() => {
                written.before_start.extend(&line);
            }
            _ => (),
        }
        written
            .files
            .retain_mut(|file| match file.write_all(&line) {
                Ok(()) => true,
                Err(cause) => {
                    let message = format!("the event log cannot be written any more: {cause}");
                    self.listener.event(&Event::Warning {
                        code: "IO",
                        message,
                    });
                    false
                }
            });
    }
}
