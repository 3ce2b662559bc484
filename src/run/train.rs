//! One training run from options to files.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::backend::{self, memory};
use crate::error::{Code, Error, Result};
use crate::export::{self, Output};
use crate::run::Package;
use crate::run::log::Log;
use crate::run::report::Report;
use crate::run::resume::Resume;
use crate::run::session::Session;
use crate::run::tensorboard::EventFile;
use crate::run::threads::Threads;
use crate::run::workspace::Workspace;
use crate::train::checkpoint::Checkpoints;
use crate::train::{Event, Listener, Progress, Status, TrainOptions};

/// Trains an adapter and writes it; `stop` ends the run after its step, and what was learned is saved.
///
/// Everything that can be refused is refused before any work. Returns the `end` event. On an error no adapter is
/// written, and the checkpoints that were saved stay.
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
    let resume = Resume::of(options);
    resume.check(&output, options)?;
    Workspace::refuse_taken(&output)?;
    let pool = Threads::start(options.threads)?;
    let threads = pool.count();
    let log = Log::new(listener);
    let trained: Result<Event> = pool.install(|| {
        let run = Session::prepare(options, package, resume.now(&output), &log, stop)?;
        run.check_places(&output, package)?;
        export::try_output(&output)?;
        let workspace = Workspace::open(&output, &log)?;
        // A run that had the lock until now may have left its own.
        resume.check(&output, options)?;
        let checkpoints = Workspace::checkpoints(&output);
        run.room()
            .check(&output.directory(), checkpoints.directory())?;
        let found = resume.find(&output, &log)?;
        let mut progress = match &found {
            Some(checkpoint) => run.resume(checkpoint, &log)?,
            None => Progress::default(),
        };
        let resumed = found.as_ref().map(|_| progress.step);
        // Metrics and checkpoints of another run end here; --overwrite said so, or there are none.
        let continued = found.is_some_and(|found| checkpoints.hold(&found));
        if !continued {
            checkpoints.clear()?;
        }
        if let Some(path) = &options.log {
            log.add_file(Path::new(path), resumed)?;
        }
        let metrics = workspace.metrics();
        log.add_file(&metrics, resumed.filter(|_| continued))?;
        log.add_report(Report::open(workspace.report(), run.used()?, &metrics)?);
        if let Some(directory) = &options.tensorboard {
            let directory = Path::new(directory);
            log.add_event_file(EventFile::create(directory, &run.used()?, resumed)?);
        }
        log.event(&run.start_event(backend, threads, resumed));
        let before = progress.elapsed;
        let identity = || run.identity();
        let saver = run.saver(&checkpoints, &identity, &log, progress.step)?;
        let outcome = run.train(&mut progress, &saver, &log, stop)?;
        saver.save(&progress);
        run.take_best(&checkpoints, &progress, &log)?;
        let files = run
            .save(&output, &outcome, &progress)
            .map_err(|error| not_written(error, &checkpoints))?;
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
            duration_ms: (before + started.elapsed()).as_millis() as u64,
            peak_bytes: memory::peak_bytes(),
        };
        log.event(&end);
        Ok(end)
    });
    match trained {
        Err(error) if error.code == Code::Aborted && stop.load(Ordering::Relaxed) => {
            let end = Event::End {
                status: Status::Stopped,
                steps: 0,
                epochs: 0.0,
                final_loss: f64::NAN,
                adapter: options.output.clone(),
                files: Vec::new(),
                duration_ms: started.elapsed().as_millis() as u64,
                peak_bytes: memory::peak_bytes(),
            };
            log.event(&end);
            Ok(end)
        }
        trained => trained.inspect_err(|error| log.failed(error)),
    }
}

/// Says how to get the adapter of a run that could not write it.
fn not_written(error: Error, checkpoints: &Checkpoints) -> Error {
    let Some(step) = checkpoints.steps().last().copied() else {
        return error;
    };
    let hint = format!(
        "the checkpoint of step {step} is saved: once that is solved, the same command with --resume auto writes the adapter"
    );
    match &error.hint {
        Some(first) => {
            let hint = format!("{first}; {hint}");
            error.hint(hint)
        }
        None => error.hint(hint),
    }
}
