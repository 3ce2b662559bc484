//! The JavaScript boundary: the one table of options, and the functions that `index.js` calls.
//! Everything that crosses it is JSON text; nothing outside this folder imports napi.

mod commands;
mod option;
mod options;
mod results;

// napi registers nothing in tests, where these functions would be unused.
#[cfg(all(feature = "node", not(test)))]
mod addon;
#[cfg(all(feature = "node", not(test)))]
mod lock;
#[cfg(all(feature = "node", not(test)))]
mod run;

pub use commands::{COMMANDS, Command, Surroundings, command};
pub use option::{Kind, OptionSpec, Surface};
pub use options::option_table;
