//! What a run works on: model, adapter, samples, and how they are used and saved.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::backend;
use crate::data::pieces;
use crate::error;
use crate::error::Result;
use crate::export::{self, BaseModel, Export, Output};
use crate::format::adapter;
use crate::lora::{Adapter, ranges};
use crate::models::{self, Decoder};
use crate::nn::Loader;
use crate::run::Package;
use crate::run::base::Base;
use crate::run::budget::{Before, Budget};
use crate::run::identity::{compare, freeze, identity};
use crate::run::log::Log;
use crate::run::places;
use crate::run::resume::restore;
use crate::run::room::Room;
use crate::run::samples::{self, Corpus};
use crate::run::sampling::tell_sample;
use crate::run::saver::{Policy, Saver};
use crate::run::settings::{settings, warmup};
use crate::run::start::{go_on, new_adapter};
use crate::train::checkpoint::{Checkpoint, Checkpoints, Identity};
use crate::train::{
    BUILT_IN, Event, LayerList, Listener, Outcome, Progress, SampleMoment, Settings, Shape, Status,
    TargetList, TrainOptions, Trainer, Warmup,
};

/// What a user of llama.cpp should know before a DoRA run, not after it.
const NO_GGUF: &str = "llama.cpp has no DoRA, so no .gguf adapter will be written; for llama.cpp, merge the adapter into its base model afterwards";

/// Everything of a run that stands before its first step.
pub struct Session<'a> {
    options: &'a TrainOptions,
    /// The options with what the defaults came to, for the sidecar.
    used: TrainOptions,
    base: Base,
    adapter_base: adapter::Base,
    model: Decoder,
    adapter: Arc<Adapter>,
    corpus: Corpus,
    now: SystemTime,
    settings: Settings,
    /// The memory plan, for the start event.
    plan: Value,
}

impl<'a> Session<'a> {
    /// `stop` is heard between two of the longer tasks: the error is then `ABORTED`. `now` is what the chat template takes
    /// for the time.
    pub fn prepare(
        options: &'a TrainOptions,
        package: &Package,
        now: SystemTime,
        log: &Log,
        stop: &AtomicBool,
    ) -> Result<Session<'a>> {
        let before = Before::run();
        let data = samples::data_path(options, package)?;
        let base = Base::open(&package.model_path(&options.model))?;
        go_on(stop)?;
        let corpus = samples::read(options, &data, &base, now, log, stop)?;
        log.event(&Event::Data {
            report: corpus.report.clone(),
            sample: pieces(&corpus.samples[0], &base.tokenizer)?,
        });
        go_on(stop)?;
        let adapter_base = models::adapter_base(&base.checkpoint)?;
        let adapter = new_adapter(options, &adapter_base)?;
        let budget = Budget::new(
            options,
            &base,
            &adapter_base,
            adapter.config(),
            &corpus,
            before.with_data(),
        )?;
        let sized = budget.decide(log)?;
        // Not before: its buffers would be measured, and a run that is refused needs no hash.
        base.begin_hashing();
        let loader = Loader::new(base.checkpoint.source(), Some(adapter.clone()))
            .with_precision(options.precision.chosen()?)
            .with_placer(Arc::new(options.placement()));
        let model = Decoder::load(base.checkpoint.config(), &loader)?;
        go_on(stop)?;
        let mut settings = settings(options, &corpus.samples, samples::seq_len(options, &base))?;
        settings.plan.batch_size = sized.batch_size;
        settings.plan.grad_accum = sized.grad_accum;
        settings.activations = sized.activations;
        let used = TrainOptions {
            data: Some(data.display().to_string()),
            seq_len: Some(samples::seq_len(options, &base)),
            warmup: Some(Warmup::Steps(settings.schedule.warmup)),
            rank: Some(adapter.config().rank),
            alpha: Some(adapter.config().alpha),
            target: Some(TargetList::Text(adapter.config().targets.to_string())),
            layers: adapter
                .config()
                .layers
                .as_ref()
                .map(|layers| LayerList::Text(ranges(layers))),
            dora: Some(adapter.config().dora),
            rslora: Some(adapter.config().rslora),
            // They say how the command was given: a resumed run has the sidecar of an unbroken one.
            overwrite: false,
            resume: None,
            ..options.clone()
        };
        if adapter.config().dora {
            log.event(&Event::Warning {
                code: "NO_GGUF",
                message: NO_GGUF.to_owned(),
            });
        }
        Ok(Session {
            options,
            used,
            base,
            adapter_base,
            model,
            adapter,
            corpus,
            now,
            settings,
            plan: sized.report,
        })
    }

    /// What a checkpoint of this run must have in common with it.
    pub fn identity(&self) -> Result<Identity> {
        let used = TrainOptions {
            // In steps it would depend on the length of the run, which may change.
            warmup: Some(warmup(self.options)),
            ..self.used.clone()
        };
        let samples = (self.corpus.samples.as_slice(), self.corpus.eval.as_slice());
        let base = self.base.sha256()?;
        let parameters = self.adapter.parameter_count();
        let mut identity = identity(&used, samples, &base, parameters)?;
        if self.corpus.tells_time {
            freeze(&mut identity, self.now);
        }
        Ok(identity)
    }

    /// Goes back to where `checkpoint` was saved. Errors: it is of another run, or of a longer one.
    pub fn resume(&self, checkpoint: &Checkpoint, log: &Log) -> Result<Progress> {
        let saved = &checkpoint.contents;
        compare(&saved.run, &self.identity()?)?;
        let (step, total) = (saved.progress.step, self.settings.schedule.total);
        if step > total {
            return Err(error!(
                Usage,
                "{} is past the {total} steps of this run",
                checkpoint.directory.display()
            )
            .hint("give more --epochs or --max-steps, or resume from an earlier checkpoint"));
        }
        restore(&self.adapter, checkpoint)?;
        let warn = |code, message| log.event(&Event::Warning { code, message });
        if step == total {
            let message = format!("the run was complete at step {step}: nothing is left to train");
            warn("ALREADY_COMPLETE", message);
        } else if total != saved.total_steps && self.settings.schedule.shape != Shape::Constant {
            let message = format!(
                "the run has {total} steps now and had {}: from here on the learning rate follows the new length",
                saved.total_steps
            );
            warn("NEW_LENGTH", message);
        }
        Ok(saved.progress.clone())
    }

    /// The options with what the defaults came to, as JSON.
    pub fn used(&self) -> Result<Value> {
        self.used.json()
    }

    /// What it writes: f32 values, and their moments in checkpoints.
    pub fn room(&self) -> Room {
        let parameters = 4 * self.adapter.parameter_count() as u64;
        let best = u64::from(self.options.save_best);
        Room {
            checkpoint: parameters * (1 + self.options.optimizer.moments() as u64),
            checkpoints: self.options.keep as u64 + best + 1,
            // For PEFT and for llama.cpp.
            adapter: 2 * parameters,
        }
    }

    /// What saves the checkpoints of this run, which goes on from the step `saved`.
    pub fn saver<'s>(
        &'s self,
        checkpoints: &'s Checkpoints,
        identity: &'s dyn Fn() -> Result<Identity>,
        log: &'s Log<'s>,
        saved: usize,
    ) -> Result<Saver<'s>> {
        let policy = Policy {
            every: self.options.save_every.every()?,
            keep: self.options.keep,
            best: self.options.save_best,
        };
        let total = self.settings.schedule.total;
        Ok(Saver::new(
            &self.adapter,
            checkpoints,
            identity,
            policy,
            total,
            log,
            saved,
        ))
    }

    pub fn start_event(
        &self,
        backend: &'static str,
        threads: usize,
        resumed_step: Option<usize>,
    ) -> Event {
        let trained = self.adapter.parameter_count();
        Event::Start {
            task: "llm",
            model: self.options.model.clone(),
            backend,
            device: format!("{} ({threads} threads)", backend::cpu::name()),
            trainable_parameters: trained,
            total_steps: self.settings.schedule.total,
            resumed_step,
            plan: self.plan.clone(),
        }
    }

    /// Trains from `progress`, which moves on with the run.
    pub fn train(
        &self,
        progress: &mut Progress,
        saver: &Saver,
        log: &Log,
        stop: &AtomicBool,
    ) -> Result<Outcome> {
        let tell = |step, moment| {
            let at = (step, moment);
            tell_sample(
                &self.model,
                &self.base.tokenizer,
                &self.corpus.samples,
                at,
                log,
                stop,
            )
        };
        let during = |step| tell(step, SampleMoment::During);
        let trainer = Trainer {
            model: &self.model,
            adapter: &self.adapter,
            samples: &self.corpus.samples,
            eval: &self.corpus.eval,
            settings: self.settings,
            listener: log,
            stop,
            sample: &during,
            save: &|progress| saver.after_step(progress),
        };
        let (first, total) = (progress.step, self.settings.schedule.total);
        // A text before and after shows what was learned; on a large model it costs seconds, so there it is asked for.
        let shows = self.options.sample_every > 0 || self.options.model == BUILT_IN;
        if first == 0 && shows {
            tell(0, SampleMoment::Before)?;
        }
        if first == 0 && !self.corpus.eval.is_empty() {
            trainer.evaluate(0)?;
        }
        let outcome = trainer.run(progress)?;
        if first < total && shows && outcome.status == Status::Completed {
            tell(outcome.steps, SampleMoment::After)?;
        }
        Ok(outcome)
    }

    /// Refuses to write where this run reads.
    pub fn check_places(&self, output: &Output, package: &Package) -> Result<()> {
        let log = self.options.log.as_deref().map(Path::new);
        let data = [&self.used.data, &self.used.eval_data];
        let mut inputs = self.base.checkpoint.catalog().paths();
        inputs.extend(data.into_iter().flatten().map(Path::new));
        // It may also be the name of a template, or its text.
        let template = self.options.chat_template.as_deref().map(Path::new);
        inputs.extend(template.filter(|path| path.is_file()));
        let model = package.model_path(&self.options.model);
        let adapter = self.options.init_adapter.as_deref().map(Path::new);
        places::check(output, log, &inputs, &model, adapter)
    }

    /// Takes the adapter of the best evaluation back, when that is wanted and the last one is not it.
    pub fn take_best(
        &self,
        checkpoints: &Checkpoints,
        progress: &Progress,
        log: &Log,
    ) -> Result<()> {
        let Some(best) = progress.best.filter(|_| self.options.save_best) else {
            return Ok(());
        };
        if best.step == progress.step {
            return Ok(());
        }
        match Checkpoint::read(&checkpoints.at(best.step)) {
            Ok(checkpoint) => restore(&self.adapter, &checkpoint),
            Err(error) => {
                let message = format!(
                    "the checkpoint of the best evaluation cannot be read, so the last adapter is written: {}",
                    error.message
                );
                log.event(&Event::Warning {
                    code: "BAD_CHECKPOINT",
                    message,
                });
                Ok(())
            }
        }
    }

    /// Writes the adapter and returns the files: none when no step was done.
    pub fn save(
        &self,
        output: &Output,
        outcome: &Outcome,
        progress: &Progress,
    ) -> Result<Vec<String>> {
        if outcome.steps == 0 {
            return Ok(Vec::new());
        }
        let mut result = json!({
            "steps": outcome.steps,
            "epochs": outcome.epochs,
            "final_loss": outcome.final_loss,
        });
        if let Some(best) = progress.best.filter(|_| self.options.save_best) {
            result["best_step"] = best.step.into();
            result["best_eval_loss"] = best.loss.into();
        }
        let tokenizer = &self.base.tokenizer;
        let export = Export {
            adapter: &self.adapter,
            base: &self.adapter_base,
            model: &BaseModel {
                name: self.options.model.clone(),
                format: self.base.checkpoint.format_name().to_owned(),
                sha256: self.base.sha256()?,
            },
            tokenizer: &export::Tokenizer {
                sha256: Some(tokenizer.sha256().to_owned()),
                chat_template_sha256: self.corpus.chat_template_sha256.clone(),
            },
            training: self.used.json()?,
            result,
        };
        let written = export::write(output, &export)?;
        Ok(written
            .iter()
            .map(|file| file.path.display().to_string())
            .collect())
    }
}
