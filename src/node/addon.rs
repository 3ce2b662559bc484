//! The functions of the native addon, except training. `lib/native.js` loads them, `index.js` gives them their public shape.

use napi::bindgen_prelude::spawn_blocking;
use napi_derive::napi;

use crate::error::{Code, Error};
use crate::run::{self, Package};

/// An error as JSON `{"code", "message", "hint"?}`, which `lib/errors.js` turns into an `AmvTrainError`.
pub(super) fn error_json(error: &Error) -> String {
    let mut json = serde_json::json!({ "code": error.code.name(), "message": error.message });
    if let Some(hint) = &error.hint {
        json["hint"] = hint.as_str().into();
    }
    json.to_string()
}

/// The error that a panic becomes: a broken promise of ours must not take the node process down.
pub(super) fn panicked(payload: &(dyn std::any::Any + Send)) -> Error {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    let message = format!("a bug in amv-train: {}", text.unwrap_or("no message"));
    Error::new(Code::Internal, message)
        .hint("please report it with the command and the lines above")
}

pub(super) fn to_napi(error: &Error) -> napi::Error {
    napi::Error::from_reason(error_json(error))
}

/// Version of the addon; the loader compares it with the package's.
#[napi]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The table of options: a JSON array of [`super::OptionSpec`].
#[napi(catch_unwind)]
pub fn option_table() -> String {
    serde_json::json!(super::option_table()).to_string()
}

/// Where models are that are named otherwise than by their path.
#[napi(object)]
pub struct Places {
    /// The folder of the built-in model.
    pub built_in: String,
    /// The model that the options name, when it was fetched from the hub.
    pub model: Option<String>,
}

impl From<Places> for Package {
    fn from(places: Places) -> Self {
        Package {
            dir: places.built_in.into(),
            fetched: places.model.map(Into::into),
        }
    }
}

/// What `model` holds and whether it can be trained, as JSON.
#[napi]
pub async fn inspect(model: String, places: Places) -> napi::Result<String> {
    match spawn_blocking(move || run::inspect(&model, &places.into())).await {
        Ok(report) => report.map(|r| r.to_string()).map_err(|e| to_napi(&e)),
        Err(failed) => Err(to_napi(&match failed.try_into_panic() {
            Ok(payload) => panicked(&*payload),
            Err(cancelled) => Error::new(Code::Aborted, cancelled.to_string()),
        })),
    }
}

/// Architectures, file types and built-in models, as JSON.
#[napi(catch_unwind)]
pub fn models() -> String {
    run::models().to_string()
}

/// What can compute here, and why something cannot, as JSON.
#[napi(catch_unwind)]
pub fn devices() -> String {
    run::devices().to_string()
}

/// Version, processor features, memory and backends, as JSON.
#[napi(catch_unwind)]
pub fn info() -> String {
    run::info().to_string()
}
