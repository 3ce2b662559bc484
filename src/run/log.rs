//! Events on their way out: to the caller, and as JSON lines to files.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::train::{Event, Listener};

/// Passes events on and writes each to its files, one JSON object a line.
pub struct Log<'a> {
    listener: &'a dyn Listener,
    files: Mutex<Vec<File>>,
}

impl<'a> Log<'a> {
    pub fn new(listener: &'a dyn Listener) -> Log<'a> {
        Log {
            listener,
            files: Mutex::default(),
        }
    }

    /// Also writes to the file at `path`, which is replaced.
    pub fn add_file(&self, path: &Path) -> Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(path);
        let file = file.map_err(|cause| Error::file("write", path, &cause))?;
        self.files
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(file);
        Ok(())
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
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain_mut(|file| match file.write_all(&line) {
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
