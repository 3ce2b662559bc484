//! The `plan` command: what a run with these options would occupy, and whether it fits, without training.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use serde_json::Value;

use crate::backend;
use crate::error::Result;
use crate::models;
use crate::run::base::Base;
use crate::run::budget::{Before, Budget};
use crate::run::start::{go_on, new_adapter};
use crate::run::threads::Threads;
use crate::run::{Package, samples};
use crate::train::{Listener, TrainOptions};

/// The `plan` of the start event for `options`, with `wouldFit` where the run would be refused. Nothing is written.
///
/// The data is tokenized, as a run does: the longest samples decide. `output` is not needed.
pub fn plan(
    options: &TrainOptions,
    package: &Package,
    listener: &dyn Listener,
    stop: &AtomicBool,
) -> Result<Value> {
    let options = TrainOptions {
        output: match options.output.is_empty() {
            true => "adapter/".to_owned(),
            false => options.output.clone(),
        },
        ..options.clone()
    };
    options.check()?;
    backend::open(&options.backend)?;
    Threads::start(options.threads)?.install(|| {
        let before = Before::run();
        let data = samples::data_path(&options, package)?;
        let base = Base::open(&package.model_path(&options.model))?;
        let corpus = samples::read(
            &options,
            Path::new(&data),
            &base,
            SystemTime::now(),
            listener,
            stop,
        )?;
        go_on(stop)?;
        let adapter_base = models::adapter_base(&base.checkpoint)?;
        let adapter = new_adapter(&options, &adapter_base)?;
        let lora = adapter.config();
        let budget = Budget::new(
            &options,
            &base,
            &adapter_base,
            lora,
            &corpus,
            before.with_data(),
        )?;
        let asked = budget.asked();
        Ok(budget.report(&asked, &budget.plan(&asked)))
    })
}
