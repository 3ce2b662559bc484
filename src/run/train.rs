//! One training run from options to files.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::backend;
use crate::error;
use crate::error::Result;
use crate::export::Output;
use crate::run::Package;
use crate::run::log::Log;
use crate::run::session::Session;
use crate::run::workspace::Workspace;
use crate::train::{Event, Listener, TrainOptions};

/// Trains an adapter and writes it; `stop` ends the run after its step, and what was learned is saved.
///
/// Everything that can be refused is refused before any work. Returns the `end` event. Nothing is written on an error.
pub fn train(
    options: &TrainOptions,
    package: &Package,
    listener: &dyn Listener,
    stop: &AtomicBool,
) -> Result<Event> {
    let started = Instant::now();
    options.check()?;
    let backend = backend::open(&options.backend)?;
    let output = Output::parse(Path::new(&options.output))?;
    if !options.overwrite
        && let Some(path) = output.existing().first()
    {
        return Err(error!(Usage, "{} exists already", path.display())
            .hint("choose another --output, or replace it with --overwrite"));
    }
    let threads = match options.threads {
        0 => backend::cpu::cores(),
        threads => threads,
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("amv-train-{index}"))
        .build()
        .map_err(|cause| error!(Internal, "cannot start {threads} threads: {cause}"))?;
    let log = Log::new(listener);
    pool.install(|| {
        let run = Session::prepare(options, package, &log)?;
        if let Some(path) = &options.log {
            log.add_file(Path::new(path))?;
        }
        let workspace = Workspace::open(&output)?;
        log.add_file(&workspace.metrics())?;
        log.event(&run.start_event(backend, threads));
        let outcome = run.train(&log, stop)?;
        let files = run.save(&output, &outcome)?;
        for path in &files {
            let (step, path) = (outcome.steps, path.clone());
            log.event(&Event::Save { step, path });
        }
        let end = Event::End {
            status: outcome.status,
            steps: outcome.steps,
            epochs: outcome.epochs,
            final_loss: outcome.final_loss,
            adapter: options.output.clone(),
            files,
            duration_ms: started.elapsed().as_millis() as u64,
        };
        log.event(&end);
        Ok(end)
    })
}
