//! One error type for the whole crate: a code programs can match, one sentence for people, and what to do next.

use std::fmt;

/// The error codes users can match on; they are spelled the same in JavaScript (`AmvTrainError.code`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    Usage,
    NotFound,
    UnsupportedModel,
    UnsupportedFormat,
    BadModel,
    BadData,
    BadAdapter,
    OutOfMemory,
    BackendUnavailable,
    DeviceLost,
    NonFinite,
    Io,
    Network,
    Auth,
    Aborted,
    Internal,
}

impl Code {
    /// The name in JavaScript and in JSON, e.g. `BAD_MODEL`.
    pub fn name(self) -> &'static str {
        match self {
            Code::Usage => "USAGE",
            Code::NotFound => "NOT_FOUND",
            Code::UnsupportedModel => "UNSUPPORTED_MODEL",
            Code::UnsupportedFormat => "UNSUPPORTED_FORMAT",
            Code::BadModel => "BAD_MODEL",
            Code::BadData => "BAD_DATA",
            Code::BadAdapter => "BAD_ADAPTER",
            Code::OutOfMemory => "OUT_OF_MEMORY",
            Code::BackendUnavailable => "BACKEND_UNAVAILABLE",
            Code::DeviceLost => "DEVICE_LOST",
            Code::NonFinite => "NON_FINITE",
            Code::Io => "IO",
            Code::Network => "NETWORK",
            Code::Auth => "AUTH",
            Code::Aborted => "ABORTED",
            Code::Internal => "INTERNAL",
        }
    }
}

/// What went wrong, where, and what to do about it.
#[derive(Debug, Clone)]
pub struct Error {
    pub code: Code,
    pub message: String,
    pub hint: Option<String>,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error {
            code,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what the user can do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A file that could not be opened, read or written; a missing one gets `NOT_FOUND`.
    pub fn file(action: &str, path: &std::path::Path, cause: &std::io::Error) -> Self {
        let code = match cause.kind() {
            std::io::ErrorKind::NotFound => Code::NotFound,
            _ => Code::Io,
        };
        Error::new(code, format!("cannot {action} {}: {cause}", path.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// `error!(BadModel, "config.json has no {key}")` makes an [`Error`] with that code.
#[macro_export]
macro_rules! error {
    ($code:ident, $($message:tt)*) => {
        $crate::error::Error::new($crate::error::Code::$code, format!($($message)*))
    };
}

/// Returns an [`Error`] from the current function, as `error!` makes it.
#[macro_export]
macro_rules! bail {
    ($code:ident, $($message:tt)*) => {
        return Err($crate::error!($code, $($message)*))
    };
}
