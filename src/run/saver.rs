//! Saves a run while it goes: when a checkpoint is due, and what happens when it cannot be written.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Instant;

use crate::backend::memory;
use crate::error;
use crate::error::Result;
use crate::format::safetensors::EachTensor;
use crate::lora::Adapter;
use crate::run::log::Log;
use crate::run::resume::{FIRST, SECOND};
use crate::train::checkpoint::{Checkpoints, Contents, Identity};
use crate::train::{Event, Every, Listener, Progress};

/// What is saved when, and what of it stays.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    pub every: Every,
    pub keep: usize,
    /// Whether the checkpoint of the best evaluation is kept beside the newest ones.
    pub best: bool,
}

/// Writes the checkpoints of a run.
pub struct Saver<'a> {
    adapter: &'a Adapter,
    checkpoints: &'a Checkpoints,
    identity: &'a dyn Fn() -> Result<Identity>,
    policy: Policy,
    total_steps: usize,
    log: &'a Log<'a>,
    /// When this process began to train.
    started: Instant,
    /// The last step that was saved or tried, and when.
    tried: Cell<(usize, Instant)>,
}

impl<'a> Saver<'a> {
    /// `identity` is asked for at the first save; `saved` is the step the run goes on from.
    pub fn new(
        adapter: &'a Adapter,
        checkpoints: &'a Checkpoints,
        identity: &'a dyn Fn() -> Result<Identity>,
        policy: Policy,
        total_steps: usize,
        log: &'a Log<'a>,
        saved: usize,
    ) -> Saver<'a> {
        Saver {
            adapter,
            checkpoints,
            identity,
            policy,
            total_steps,
            log,
            started: Instant::now(),
            tried: Cell::new((saved, Instant::now())),
        }
    }

    /// Saves when it is due.
    pub fn after_step(&self, progress: &Progress) {
        let due = match self.policy.every {
            Every::Never => false,
            Every::Steps(steps) => progress.step.is_multiple_of(steps),
            Every::Time(time) => self.tried.get().1.elapsed() >= time,
        };
        let is_best = progress.best.is_some_and(|best| best.step == progress.step);
        if due || self.policy.best && is_best {
            self.save(progress);
        }
    }

    /// Saves unless this step was saved already. A save that fails is a warning: the run is worth more, and the older
    /// checkpoints are still there.
    pub fn save(&self, progress: &Progress) {
        // What steps leave to be used again would lie beside the copies that are written.
        memory::give_back();
        if progress.step == 0 || self.tried.get().0 == progress.step {
            return;
        }
        let step = progress.step;
        let event = match self.write(progress) {
            Ok(path) => Event::Save {
                step,
                path: path.display().to_string(),
            },
            Err(error) => Event::Warning {
                code: "SAVE_FAILED",
                message: format!(
                    "no checkpoint of step {step}: {}; training goes on, {}",
                    error.message,
                    self.last_one()
                ),
            },
        };
        self.log.event(&event);
        self.tried.set((step, Instant::now()));
    }

    fn last_one(&self) -> String {
        match self.checkpoints.steps().last() {
            Some(step) => format!("the last checkpoint is that of step {step}"),
            None => "there is no checkpoint yet".to_owned(),
        }
    }

    fn write(&self, progress: &Progress) -> Result<PathBuf> {
        let updates = self.adapter.each_parameter(|_| Ok(()))?;
        let mut progress = progress.clone();
        progress.elapsed += self.started.elapsed();
        let best = progress
            .best
            .filter(|_| self.policy.best)
            .map(|best| best.step);
        let contents = Contents {
            progress,
            total_steps: self.total_steps,
            updates,
            run: (self.identity)()?,
        };
        let keep = self.policy.keep;
        self.checkpoints
            .write(&contents, &|each| self.tensors(each), keep, best)
    }

    /// Every trainable tensor with its moments, refused when a value is not finite: such a checkpoint would push out the
    /// good ones.
    fn tensors(&self, each: &mut EachTensor) -> Result<()> {
        self.adapter.each_parameter(|parameter| {
            let shape = parameter.value.shape();
            let parts = [
                ("", parameter.value.values()?),
                (FIRST, parameter.first),
                (SECOND, parameter.second),
            ];
            for (ending, values) in parts.into_iter().filter(|(_, values)| !values.is_empty()) {
                let name = format!("{}{ending}", parameter.name);
                if !values.iter().all(|value| value.is_finite()) {
                    return Err(error!(NonFinite, "{name} has values that are not finite"));
                }
                each(&name, shape, values)?;
            }
            Ok(())
        })?;
        Ok(())
    }
}
