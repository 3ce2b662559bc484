//! The JavaScript boundary: the one table of options, and the functions that `index.js` calls.
//! Everything that crosses it is JSON text; nothing outside this folder imports napi.

mod option;
mod options;

#[cfg(feature = "node")]
mod addon;
#[cfg(feature = "node")]
mod run;

pub use option::{Kind, OptionSpec, Surface};
pub use options::option_table;
