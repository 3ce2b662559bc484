//! What a run works on: model, adapter, samples, and how they are used and saved.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::json;

use crate::backend;
use crate::data::Sample;
use crate::error::Result;
use crate::export::{self, BaseModel, Export, Output};
use crate::format::adapter;
use crate::lora::Adapter;
use crate::models::{self, Decoder};
use crate::nn::Loader;
use crate::run::Package;
use crate::run::base::Base;
use crate::run::log::Log;
use crate::run::places;
use crate::run::samples;
use crate::run::sampling::tell_sample;
use crate::run::settings::settings;
use crate::run::start::new_adapter;
use crate::train::{
    BUILT_IN, Event, Listener, OptimizerName, Outcome, SampleMoment, Settings, Status, TargetList,
    TrainOptions, Trainer, Warmup,
};

/// Tokens per sample, when the model's context is not shorter.
const SEQ_LEN: usize = 512;

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
    samples: Vec<Sample>,
    eval: Vec<Sample>,
    settings: Settings,
}

impl<'a> Session<'a> {
    pub fn prepare(options: &'a TrainOptions, package: &Package, log: &Log) -> Result<Session<'a>> {
        let data = samples::data_path(options, package)?;
        let base = Base::open(&package.model_path(&options.model))?;
        let seq_len = options.seq_len.unwrap_or(SEQ_LEN.min(base.spec.context));
        let (samples, eval) = samples::read(options, &data, &base, seq_len, log)?;
        let adapter_base = models::adapter_base(&base.checkpoint)?;
        let adapter = new_adapter(options, &adapter_base)?;
        let loader = Loader::new(base.checkpoint.source(), Some(adapter.clone()));
        let model = Decoder::load(base.checkpoint.config(), &loader)?;
        let settings = settings(options, samples.len())?;
        let used = TrainOptions {
            data: Some(data.display().to_string()),
            seq_len: Some(seq_len),
            warmup: Some(Warmup::Steps(settings.schedule.warmup)),
            rank: Some(adapter.config().rank),
            alpha: Some(adapter.config().alpha),
            target: Some(TargetList::Text(adapter.config().targets.to_string())),
            dora: Some(adapter.config().dora),
            rslora: Some(adapter.config().rslora),
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
            samples,
            eval,
            settings,
        })
    }

    pub fn start_event(&self, backend: &'static str, threads: usize) -> Event {
        let trained = self.adapter.parameter_count();
        let spec = &self.base.spec;
        let tokens =
            samples::longest(&self.samples) * self.options.batch_size.min(self.samples.len());
        let base: usize = self
            .base
            .checkpoint
            .catalog()
            .tensors()
            .iter()
            .filter_map(|tensor| tensor.bytes())
            .sum();
        let moments = match self.options.optimizer {
            OptimizerName::Adamw => 2,
            OptimizerName::Sgd => 0,
        };
        Event::Start {
            task: "llm",
            model: self.options.model.clone(),
            backend,
            device: format!("{} ({threads} threads)", backend::cpu::name()),
            trainable_parameters: trained,
            total_steps: self.settings.schedule.total,
            plan: json!({
                "baseMapped": base,
                "adapter": trained * 4,
                "gradients": trained * 4,
                "optimizer": trained * 4 * moments,
                "checkpoints": tokens * spec.width * spec.layers.len() * 4,
            }),
        }
    }

    pub fn train(&self, log: &Log, stop: &AtomicBool) -> Result<Outcome> {
        let tell = |step, moment| {
            let at = (step, moment);
            tell_sample(
                &self.model,
                &self.base.tokenizer,
                &self.samples,
                at,
                log,
                stop,
            )
        };
        let during = |step| tell(step, SampleMoment::During);
        let trainer = Trainer {
            model: &self.model,
            adapter: &self.adapter,
            samples: &self.samples,
            eval: &self.eval,
            settings: self.settings,
            listener: log,
            stop,
            sample: &during,
        };
        // A text before and after shows what was learned; on a large model it costs seconds, so there it is asked for.
        let shows = self.options.sample_every > 0 || self.options.model == BUILT_IN;
        if shows {
            tell(0, SampleMoment::Before)?;
        }
        if !self.eval.is_empty() {
            trainer.evaluate(0)?;
        }
        let outcome = trainer.run()?;
        if shows && outcome.status == Status::Completed {
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
        let model = package.model_path(&self.options.model);
        places::check(output, log, &inputs, &model)
    }

    /// Writes the adapter and returns the files: none when no step was done.
    pub fn save(&self, output: &Output, outcome: &Outcome) -> Result<Vec<String>> {
        if outcome.steps == 0 {
            return Ok(Vec::new());
        }
        let tokenizer = &self.base.tokenizer;
        let export = Export {
            adapter: &self.adapter,
            base: &self.adapter_base,
            model: &BaseModel {
                name: self.options.model.clone(),
                format: self.base.checkpoint.format_name().to_owned(),
                sha256: self.base.checkpoint.sha256()?,
            },
            tokenizer: &export::Tokenizer {
                sha256: Some(tokenizer.sha256().to_owned()),
                chat_template_sha256: tokenizer.chat_template_sha256(),
            },
            training: json!(self.used),
            result: json!({
                "steps": outcome.steps,
                "epochs": outcome.epochs,
                "final_loss": outcome.final_loss,
            }),
        };
        let written = export::write(output, &export)?;
        Ok(written
            .iter()
            .map(|file| file.path.display().to_string())
            .collect())
    }
}
