//! One training run from options to files.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::backend;
use crate::error;
use crate::error::Result;
use crate::export::{self, Output};
use crate::run::Package;
use crate::run::log::Log;
use crate::run::session::Session;
use crate::run::workspace::Workspace;
use crate::train::{Event, Listener, TrainOptions};

/// More threads than this on each core only wait for one another: at 500, a step takes a minute instead of a second.
const MOST_THREADS_PER_CORE: usize = 8;

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
    refuse_existing(&output, options)?;
    let pool = pool(options.threads)?;
    let threads = pool.current_num_threads();
    let log = Log::new(listener);
    pool.install(|| {
        let run = Session::prepare(options, package, &log)?;
        run.check_places(&output, package)?;
        export::try_output(&output)?;
        if let Some(path) = &options.log {
            log.add_file(Path::new(path))?;
        }
        let workspace = Workspace::open(&output)?;
        // A run that had the lock until now may have left its own.
        refuse_existing(&output, options)?;
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

fn refuse_existing(output: &Output, options: &TrainOptions) -> Result<()> {
    match output.existing().first() {
        Some(path) if !options.overwrite => Err(error!(Usage, "{} exists already", path.display())
            .hint("choose another --output, or replace it with --overwrite")),
        _ => Ok(()),
    }
}

/// The threads that compute; 0 asks for one on each core.
fn pool(threads: usize) -> Result<rayon::ThreadPool> {
    let cores = backend::cpu::cores();
    let most = cores * MOST_THREADS_PER_CORE;
    if threads > most {
        return Err(error!(
            Usage,
            "threads is {threads}, but this machine has {cores} cores"
        )
        .hint(format!("use at most {most}, or leave --threads out")));
    }
    rayon::ThreadPoolBuilder::new()
        .num_threads(if threads == 0 { cores } else { threads })
        .thread_name(|index| format!("amv-train-{index}"))
        .build()
        .map_err(|cause| error!(Internal, "cannot start {threads} threads: {cause}"))
}
