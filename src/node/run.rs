//! A command on a thread of its own. Events and the outcome reach JavaScript through one queue, so the outcome comes last.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use napi::Status;
use napi::bindgen_prelude::FnArgs;
use napi::threadsafe_function::{
    ThreadsafeFunction, ThreadsafeFunctionCallMode, UnknownReturnValue,
};
use napi_derive::napi;

use super::addon::{Places, error_json, panicked};
use super::commands::{Surroundings, command};
use crate::error::Result;
use crate::run::Package;
use crate::train::{Event, Listener};

/// `(kind, json)`, where kind is `event` any number of times, then `end` or `error` once.
type Message = FnArgs<(&'static str, String)>;
type Callback = ThreadsafeFunction<Message, UnknownReturnValue, Message, Status, false>;

/// Stops the work that [`start`] began.
#[napi]
pub struct RunHandle {
    stop: Arc<AtomicBool>,
}

#[napi]
impl RunHandle {
    /// Asks the work to end early: a training run finishes its step and saves. Returns at once; asking twice changes nothing.
    #[napi]
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Starts `command` and returns at once. `options_json` is what that command takes, and `on_message` gets
/// `(kind, json)`.
///
/// Node.js stays alive until the outcome is delivered and no longer. When JavaScript has gone, the run stops itself.
#[napi]
pub fn start(
    command: String,
    options_json: String,
    places: Places,
    on_message: Callback,
) -> napi::Result<RunHandle> {
    let package = places.into();
    let stop = Arc::new(AtomicBool::new(false));
    let handle = RunHandle { stop: stop.clone() };
    std::thread::Builder::new()
        .name("amv-train".into())
        .spawn(move || {
            let queue = Queue { on_message, stop };
            let caught = AssertUnwindSafe(|| work(&command, &options_json, &package, &queue));
            match catch_unwind(caught).unwrap_or_else(|payload| Err(panicked(&*payload))) {
                Ok(end) => queue.send("end", end),
                Err(error) => queue.send("error", error_json(&error)),
            }
        })?;
    Ok(handle)
}

fn work(name: &str, options: &str, package: &Package, queue: &Queue) -> Result<String> {
    let around = Surroundings {
        package,
        listener: queue,
        stop: &queue.stop,
    };
    (command(name)?.start)(options, &around)
}

fn to_json(message: &impl serde::Serialize) -> String {
    serde_json::to_string(message).unwrap_or_else(|e| panic!("an event is plain data: {e}"))
}

struct Queue {
    on_message: Callback,
    stop: Arc<AtomicBool>,
}

impl Queue {
    fn send(&self, kind: &'static str, json: String) {
        let mode = ThreadsafeFunctionCallMode::NonBlocking;
        if self.on_message.call((kind, json).into(), mode) != Status::Ok {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

impl Listener for Queue {
    fn event(&self, event: &Event) {
        self.send("event", to_json(event));
    }
}
