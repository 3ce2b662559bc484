//! A folder to run in, and what a run tells: for the tests of whole runs.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use amv_train::error::Error;
use amv_train::run::{Package, train};
use amv_train::train::{Event, Listener, TrainOptions};
use serde_json::json;

#[allow(dead_code, reason = "not every test of whole runs trains on it")]
pub const TWENTY_WORDS: &str = "the quick brown fox jumps over the lazy dog and then it sleeps under a tree until the sun is gone";

#[derive(Default)]
pub struct Heard(pub Mutex<Vec<Event>>);

impl Listener for Heard {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

pub fn package() -> Package {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("builtin");
    let fetched = None;
    Package { dir, fetched }
}

/// A folder with the data of a run.
pub struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    pub fn new(data: &str) -> Desk {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("data.txt"), data).unwrap();
        std::fs::write(folder.path().join("data.jsonl"), data).unwrap();
        Desk { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Runs with `options` over the defaults: data.txt, output `out/`.
    pub fn run(&self, options: serde_json::Value) -> (Result<Event, Error>, Vec<Event>) {
        let mut all = json!({ "data": self.text("data.txt"), "output": self.text("out/") });
        let given = options.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(given);
        let options: TrainOptions = serde_json::from_value(all).unwrap();
        let heard = Heard::default();
        let end = train(&options, &package(), &heard, &AtomicBool::new(false));
        (end, heard.0.into_inner().unwrap())
    }
}

/// (loss, tokens) of every step.
#[allow(dead_code, reason = "not every test of whole runs asks for them")]
pub fn steps(events: &[Event]) -> Vec<(f64, usize)> {
    let step = |event: &Event| match event {
        Event::Step { loss, tokens, .. } => Some((*loss, *tokens)),
        _ => None,
    };
    events.iter().filter_map(step).collect()
}
