//! Whether a run fits the memory that is free, and which settings would.

mod before;

pub use before::Before;

use serde_json::{Value, json};

use crate::backend::memory;
use crate::data::Dealer;
use crate::error;
use crate::error::{Error, Result};
use crate::exec::{Machine, Measured, MemoryPlan, Placement, Work};
use crate::format::{Checkpoint, adapter};
use crate::lora::{LoraConfig, Targets};
use crate::models::DecoderSpec;
use crate::run::base::Base;
use crate::run::samples::{self, Corpus};
use crate::run::settings::settings;
use crate::tensor::Activations;
use crate::train::{CheckpointingOption, Event, Listener, TrainOptions};

/// Lengths and ranks that are tried when a run does not fit.
const SHORTER: [usize; 6] = [512, 384, 256, 128, 64, 32];
const RANKS: [usize; 3] = [8, 4, 2];

/// What a run's memory depends on.
pub struct Budget<'a> {
    options: &'a TrainOptions,
    checkpoint: &'a Checkpoint,
    spec: &'a DecoderSpec,
    base: &'a adapter::Base,
    lora: &'a LoraConfig,
    /// Tokens of every sample, or of every row of packed ones, the longest first.
    lengths: Vec<usize>,
    eval_tokens: usize,
    measured: Measured,
    threads: usize,
    /// Bytes that this process can still get; none when the system does not say.
    free: Option<u64>,
}

/// The settings that may give way.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    pub batch_size: usize,
    pub grad_accum: usize,
    /// None for samples as they are.
    seq_len: Option<usize>,
    pub activations: Activations,
    lora: LoraConfig,
}

impl Choice {
    fn replayed(self) -> Choice {
        let activations = Activations::Replayed;
        Choice {
            activations,
            ..self
        }
    }
}

/// A run that may start.
pub struct Sized {
    pub batch_size: usize,
    pub grad_accum: usize,
    pub activations: Activations,
    /// The `plan` of the start event.
    pub report: Value,
}

impl<'a> Budget<'a> {
    /// The budget of a run with these settings, against what is free now.
    pub fn new(
        options: &'a TrainOptions,
        base: &'a Base,
        adapter_base: &'a adapter::Base,
        lora: &'a LoraConfig,
        corpus: &Corpus,
        measured: Measured,
    ) -> Result<Budget<'a>> {
        let seq_len = samples::seq_len(options, base);
        let dealt = settings(options, &corpus.samples, seq_len)?.plan;
        Ok(Budget {
            options,
            checkpoint: &base.checkpoint,
            spec: &base.spec,
            base: adapter_base,
            lora,
            lengths: Dealer::new(dealt, &corpus.samples).row_lengths(),
            eval_tokens: samples::longest(&corpus.eval),
            measured,
            threads: rayon::current_num_threads(),
            free: memory::available_bytes(),
        })
    }

    /// The settings to run with: those asked for or, with `--fit`, the largest micro-batch that fits.
    ///
    /// Errors: `OUT_OF_MEMORY` when the run would leave less than the guard band. Where the system does not say what is
    /// free, a warning says so and nothing is refused.
    pub fn decide(&self, log: &dyn Listener) -> Result<Sized> {
        let asked = self.asked();
        let plan = self.plan(&asked);
        let mut chosen = (asked, plan);
        if !self.fits(&plan) {
            let smaller = self
                .options
                .fit
                .then(|| self.smaller_batch(&chosen.0))
                .flatten();
            chosen = smaller.ok_or_else(|| self.refusal(&plan))?;
            let message = format!(
                "the micro-batch is {} instead of {} so that the run fits the memory; {} of them make a step, which learns the same",
                chosen.0.batch_size, self.options.batch_size, chosen.0.grad_accum
            );
            warn(log, "FIT", message);
        }
        let (choice, plan) = chosen;
        match self.free {
            None => warn(
                log,
                "MEMORY_UNKNOWN",
                format!(
                    "the system does not say how much memory is free; this run needs {}",
                    megabytes(plan.total)
                ),
            ),
            Some(_) if !self.leaves_guard_band(plan.total) => warn(
                log,
                "SLOW_STORAGE",
                format!(
                    "{} of the model do not all fit the free memory, so parts are read from storage again in every step",
                    megabytes(plan.base_mapped)
                ),
            ),
            Some(_) => (),
        }
        Ok(Sized {
            batch_size: choice.batch_size,
            grad_accum: choice.grad_accum,
            activations: choice.activations,
            report: self.report(&choice, &plan),
        })
    }

    /// The settings as given; activations are kept where that is left open and they leave the guard band for sure.
    pub fn asked(&self) -> Choice {
        let kept = Choice {
            batch_size: self.options.batch_size,
            grad_accum: self.options.grad_accum,
            seq_len: None,
            activations: Activations::Kept,
            lora: self.lora.clone(),
        };
        let as_loaded = self.options.placement() == Placement::default();
        let keep = match self.options.checkpointing {
            CheckpointingOption::On => false,
            CheckpointingOption::Off => true,
            // Units are what is replayed.
            CheckpointingOption::Auto if !as_loaded => false,
            CheckpointingOption::Auto => {
                self.free.is_some() && self.leaves_guard_band(self.plan(&kept).total)
            }
        };
        match keep {
            true => kept,
            false => kept.replayed(),
        }
    }

    pub fn plan(&self, choice: &Choice) -> MemoryPlan {
        let within = |length: &usize| choice.seq_len.map_or(*length, |most| most.min(*length));
        let micro = self.lengths.iter().take(choice.batch_size);
        let per_step = choice.batch_size.min(self.lengths.len());
        let work = Work {
            spec: self.spec,
            source: &*self.base.source,
            sites: &self.base.sites(),
            lora: &choice.lora,
            vocab: self.vocab(),
            tied: self.base.tied,
            tokens: micro.map(within).sum(),
            eval_tokens: within(&self.eval_tokens),
            activations: choice.activations,
            placement: self.options.placement(),
            vocab_slice: self.options.vocab_slice(),
            accumulates: choice.grad_accum > 1 && self.lengths.len() > per_step,
            moments: self.options.optimizer.moments(),
        };
        let threads = self.threads;
        MemoryPlan::of(&work, self.checkpoint, self.measured, Machine { threads })
    }

    fn vocab(&self) -> usize {
        let table = self.base.source.weight("model.embed_tokens.weight");
        table.map_or(1, |table| table.shape()[0])
    }

    pub fn fits(&self, plan: &MemoryPlan) -> bool {
        self.leaves_guard_band(plan.required)
    }

    fn leaves_guard_band(&self, bytes: usize) -> bool {
        let there = self.measured.program + self.measured.data;
        let more = bytes.saturating_sub(there) as u64;
        let guard = self.options.guard_band << 20;
        self.free
            .is_none_or(|free| free >= more.saturating_add(guard))
    }

    /// The largest micro-batch that fits and divides the step as it is, so that the step stays the same.
    fn smaller_batch(&self, from: &Choice) -> Option<(Choice, MemoryPlan)> {
        let step = from.batch_size * from.grad_accum;
        let sizes = (1..from.batch_size)
            .rev()
            .filter(|size| step.is_multiple_of(*size));
        let choices = sizes.map(|batch_size| Choice {
            batch_size,
            grad_accum: step / batch_size,
            ..from.clone()
        });
        self.first_that_fits(choices)
    }

    fn first_that_fits(
        &self,
        choices: impl Iterator<Item = Choice>,
    ) -> Option<(Choice, MemoryPlan)> {
        let planned = choices.map(|choice| (self.plan(&choice), choice));
        let mut fitting = planned.filter(|(plan, _)| self.fits(plan));
        fitting.next().map(|(plan, choice)| (choice, plan))
    }

    /// Settings near those asked for that would fit: smaller batches first, then shorter samples, then smaller adapters.
    pub fn suggestion(&self) -> Option<(Choice, MemoryPlan)> {
        let asked = self.asked().replayed();
        let same_batch = self.first_that_fits(std::iter::once(asked.clone()));
        same_batch
            .or_else(|| self.smaller_batch(&asked))
            .or_else(|| {
                let longest = self.lengths.first().copied().unwrap_or(0);
                let one = Choice {
                    batch_size: 1,
                    grad_accum: asked.batch_size * asked.grad_accum,
                    ..asked
                };
                // A continued adapter keeps its settings.
                let mut ranks = RANKS
                    .into_iter()
                    .filter(|rank| *rank < self.lora.rank && self.options.init_adapter.is_none());
                let loras = ranks.clone().map(|rank| LoraConfig {
                    rank,
                    ..self.lora.clone()
                });
                let fewer = ranks.next_back().and_then(|rank| {
                    Some(LoraConfig {
                        rank,
                        targets: Targets::parse("attention").ok()?,
                        ..self.lora.clone()
                    })
                });
                let loras: Vec<LoraConfig> = std::iter::once(self.lora.clone())
                    .chain(loras)
                    .chain(fewer)
                    .collect();
                let lengths: Vec<Option<usize>> = std::iter::once(None)
                    .chain(SHORTER.into_iter().filter(|most| *most < longest).map(Some))
                    .collect();
                let choices = loras.iter().flat_map(|lora| {
                    lengths.iter().map(|seq_len| Choice {
                        seq_len: *seq_len,
                        lora: lora.clone(),
                        ..one.clone()
                    })
                });
                self.first_that_fits(choices)
            })
    }

    /// `choice` as the flags that differ from those given.
    fn flags(&self, choice: &Choice) -> String {
        let mut flags = Vec::new();
        let off = self.options.checkpointing == CheckpointingOption::Off;
        if off && choice.activations == Activations::Replayed {
            flags.push("--checkpointing on".to_owned());
        }
        if choice.batch_size != self.options.batch_size {
            flags.push(format!(
                "--batch-size {} --grad-accum {}",
                choice.batch_size, choice.grad_accum
            ));
        }
        if let Some(seq_len) = choice.seq_len {
            flags.push(format!("--seq-len {seq_len}"));
        }
        if choice.lora.rank != self.lora.rank {
            flags.push(format!("--rank {}", choice.lora.rank));
        }
        if choice.lora.targets != self.lora.targets {
            flags.push(format!("--target {}", choice.lora.targets));
        }
        flags.join(" ")
    }

    fn refusal(&self, plan: &MemoryPlan) -> Error {
        let error = error!(
            OutOfMemory,
            "not enough memory: this run needs {} ({} of it mapped from the model), {} are free, and {} must stay so (--guard-band)",
            megabytes(plan.total),
            megabytes(plan.base_mapped),
            megabytes(self.free.unwrap_or(0) as usize),
            megabytes((self.options.guard_band << 20) as usize),
        );
        match self.suggestion() {
            Some((choice, smaller)) => error.hint(format!(
                "this would fit, with {}: {}",
                megabytes(smaller.total),
                self.flags(&choice)
            )),
            None => error.hint("close other programs, or use a smaller model: no batch size, length or rank makes this one fit"),
        }
    }

    /// The parts, what is free, the verdict, and the flags that would fit.
    pub fn report(&self, choice: &Choice, plan: &MemoryPlan) -> Value {
        let mut report = json!(plan);
        report["free"] = json!(self.free);
        report["guardBand"] = json!(self.options.guard_band << 20);
        report["fits"] = json!(self.free.map(|_| self.fits(plan)));
        report["batchSize"] = json!(choice.batch_size);
        report["gradAccum"] = json!(choice.grad_accum);
        report["checkpointing"] = json!(match choice.activations {
            Activations::Kept => CheckpointingOption::Off,
            Activations::Replayed => CheckpointingOption::On,
        });
        report["longestSample"] = json!(self.lengths.first());
        if !self.fits(plan)
            && let Some((choice, smaller)) = self.suggestion()
        {
            report["wouldFit"] = json!({ "flags": self.flags(&choice), "total": smaller.total });
        }
        report
    }
}

fn warn(log: &dyn Listener, code: &'static str, message: String) {
    log.event(&Event::Warning { code, message });
}

fn megabytes(bytes: usize) -> String {
    format!("{} MB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests;
