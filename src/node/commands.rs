//! The commands that JavaScript can start, by name: options as JSON in, the result as JSON out, events on the way.

use std::sync::atomic::AtomicBool;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error;
use crate::error::Result;
use crate::run::{
    self, DataOptions, EvaluateOptions, ExportOptions, GenerateOptions, MergeOptions, Package,
    VerifyOptions,
};
use crate::train::{Listener, TrainOptions};

/// What a command needs besides its options.
pub struct Surroundings<'a> {
    /// Where the built-in model is.
    pub package: &'a Package,
    pub listener: &'a dyn Listener,
    /// Set from outside to end the work early, with what it has.
    pub stop: &'a AtomicBool,
}

/// A command: `options` as JSON to its result as JSON.
pub struct Command {
    pub name: &'static str,
    pub start: fn(options: &str, around: &Surroundings) -> Result<String>,
    /// The options as they are when none is given, for the tests of the option table.
    #[cfg(test)]
    pub defaults: fn() -> serde_json::Value,
    /// Whether the options parse, for the tests of the option table.
    #[cfg(test)]
    pub parse: fn(options: &str) -> Result<serde_json::Value>,
}

/// A row of [`COMMANDS`]: name, type of the options, and the function that takes them, package, listener and stop flag.
macro_rules! command {
    ($name:literal, $options:ty, $work:expr) => {
        Command {
            name: $name,
            start: |options, around| {
                answer::<$options, _>(options, |options| {
                    $work(options, around.package, around.listener, around.stop)
                })
            },
            #[cfg(test)]
            defaults: || serde_json::json!(<$options>::default()),
            #[cfg(test)]
            parse: |options| Ok(serde_json::json!(parse::<$options>(options)?)),
        }
    };
}

/// Every command. A new one is a row here, its options in `options.rs`, and its words in `bin/cli/commands.js`.
pub static COMMANDS: &[Command] = &[
    command!("train", TrainOptions, run::train),
    command!("data", DataOptions, run::data),
    command!("generate", GenerateOptions, run::generate),
    command!("eval", EvaluateOptions, run::evaluate),
    command!("export", ExportOptions, run::export),
    command!("merge", MergeOptions, run::merge),
    command!("verify", VerifyOptions, run::verify),
    command!("plan", TrainOptions, run::plan),
];

/// The command `name`, or an error when the JavaScript side asks for one that is not there.
#[cfg_attr(test, allow(dead_code, reason = "called by the addon alone"))]
pub fn command(name: &str) -> Result<&'static Command> {
    let found = COMMANDS.iter().find(|command| command.name == name);
    found.ok_or_else(|| error!(Internal, "the addon has no command {name}"))
}

fn parse<O: DeserializeOwned>(options: &str) -> Result<O> {
    serde_json::from_str(options).map_err(|cause| error!(Usage, "options: {cause}"))
}

fn answer<O: DeserializeOwned, R: Serialize>(
    options: &str,
    work: impl FnOnce(&O) -> Result<R>,
) -> Result<String> {
    let answer = work(&parse(options)?)?;
    serde_json::to_string(&answer)
        .map_err(|cause| error!(Internal, "a result cannot be written as JSON: {cause}"))
}
