//! A training run on a thread of its own. Events and the outcome reach JavaScript through one queue, so the outcome comes last.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use napi::Status;
use napi::bindgen_prelude::FnArgs;
use napi::threadsafe_function::{
    ThreadsafeFunction, ThreadsafeFunctionCallMode, UnknownReturnValue,
};
use napi_derive::napi;

use super::addon::{error_json, panicked};
use crate::error::Result;
use crate::run::{self, Package};
use crate::train::{Event, Listener, TrainOptions};

/// `(kind, json)`, where kind is `event` any number of times, then `end` or `error` once.
type Message = FnArgs<(&'static str, String)>;
type Callback = ThreadsafeFunction<Message, UnknownReturnValue, Message, Status, false>;

/// Stops the run that [`start_train`] began.
#[napi]
pub struct RunHandle {
    stop: Arc<AtomicBool>,
}

#[napi]
impl RunHandle {
    /// Asks the run to finish its step, save and end. Returns at once; asking twice changes nothing.
    #[napi]
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Starts training and returns at once. `options_json` is a `TrainOptions`, `package_dir` holds the built-in model,
/// and `on_message` gets `(kind, json)`.
///
/// Node.js stays alive until the outcome is delivered and no longer. When JavaScript has gone, the run stops itself.
#[napi]
pub fn start_train(
    options_json: String,
    package_dir: String,
    on_message: Callback,
) -> napi::Result<RunHandle> {
    let package = Package {
        dir: package_dir.into(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let handle = RunHandle { stop: stop.clone() };
    std::thread::Builder::new()
        .name("amv-train".into())
        .spawn(move || {
            let queue = Queue { on_message, stop };
            let work = AssertUnwindSafe(|| train_json(&options_json, &package, &queue));
            match catch_unwind(work).unwrap_or_else(|payload| Err(panicked(&*payload))) {
                Ok(end) => queue.send("end", end),
                Err(error) => queue.send("error", error_json(&error)),
            }
        })?;
    Ok(handle)
}

fn train_json(options_json: &str, package: &Package, queue: &Queue) -> Result<String> {
    let options: TrainOptions =
        serde_json::from_str(options_json).map_err(|e| crate::error!(Usage, "options: {e}"))?;
    Ok(to_json(&run::train(&options, package, queue, &queue.stop)?))
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
