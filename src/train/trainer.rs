//! The loop: micro-batches forward and backward, one update a step, and what is told of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::autograd::backward;
use crate::backend::memory;
use crate::data::{Batch, Dealer, Plan, Sample};
use crate::error;
use crate::error::Result;
use crate::lora::{Adapter, Optimizer};
use crate::models::Decoder;
use crate::tensor::{Activations, Ctx, Grads, Tensor};
use crate::train::{Best, Event, Listener, Progress, Schedule, Status};

/// After this many steps without a finite gradient in a row, a run ends with an error.
const MAX_SKIPPED: usize = 3;

/// How a run goes, beyond what it trains on.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub plan: Plan,
    pub schedule: Schedule,
    pub optimizer: Optimizer,
    /// Gradients of a larger global norm are scaled down to it; 0 for never.
    pub max_grad_norm: f64,
    /// Steps between evaluations; 0 for once an epoch.
    pub eval_every: usize,
    /// Steps between calls of [`Trainer::sample`]; 0 for never.
    pub sample_every: usize,
    pub seed: u64,
    pub activations: Activations,
    /// Rows of the vocabulary whose logits are in memory at a time, when that is asked for.
    pub vocab_slice: Option<usize>,
}

/// A run that is over: how it ended and what it reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    pub status: Status,
    pub steps: usize,
    pub epochs: f64,
    /// Mean loss of the last tenth of the steps, at least one.
    pub final_loss: f64,
}

/// Everything a run works with.
pub struct Trainer<'a> {
    pub model: &'a Decoder,
    pub adapter: &'a Arc<Adapter>,
    pub samples: &'a [Sample],
    /// Held-out samples; empty for no evaluation.
    pub eval: &'a [Sample],
    pub settings: Settings,
    pub listener: &'a dyn Listener,
    /// Set from outside to end the run after its step.
    pub stop: &'a AtomicBool,
    /// Writes a text to watch the model learn, at the given step.
    pub sample: &'a dyn Fn(usize) -> Result<()>,
    /// Called after each step, and what belongs to it, with all that has been reached.
    pub save: &'a dyn Fn(&Progress),
}

/// What one step did.
struct Step {
    /// The samples it was made of.
    numbers: Vec<usize>,
    loss: f64,
    grad_norm: f64,
    tokens: usize,
    skipped: bool,
    /// Of a step that was skipped: the first layer, or the parameter, that is not finite.
    place: Option<String>,
}

impl Trainer<'_> {
    /// Trains from `progress` until the last step or until `stop`. Errors leave the adapter as the last good step made it.
    pub fn run(&self, progress: &mut Progress) -> Result<Outcome> {
        let Settings { plan, schedule, .. } = self.settings;
        let total = schedule.total;
        let mut dealer = Dealer::new(plan, self.samples);
        let per_epoch = dealer.steps_per_epoch();
        self.catch_up(progress, per_epoch)?;
        while progress.step < total && !self.stop.load(Ordering::Relaxed) {
            let started = Instant::now();
            let lr = schedule.lr(progress.step + 1);
            let step = self.step(progress.step, dealer.step(progress.step), lr)?;
            progress.step += 1;
            progress.training += started.elapsed();
            let done = progress.step;
            let per_step = progress.training.as_secs_f64() / done as f64;
            self.listener.event(&Event::Step {
                step: done,
                total_steps: total,
                epoch: done as f64 / per_epoch as f64,
                loss: step.loss,
                lr,
                grad_norm: step.grad_norm,
                tokens: step.tokens,
                tokens_per_second: step.tokens as f64 / started.elapsed().as_secs_f64(),
                eta_ms: (per_step * 1e3 * (total - done) as f64) as u64,
                memory_bytes: memory::resident_bytes(),
                skipped: step.skipped,
            });
            if step.skipped {
                progress.skipped += 1;
                progress.skipped_in_a_row += 1;
                self.warn_skipped(done, &step);
                self.refuse_divergence(progress)?;
            } else {
                progress.skipped_in_a_row = 0;
                progress.losses.push(step.loss);
                progress.zero_seen = progress.zero_seen || self.warn_zero(done, &step);
            }
            self.after_step(progress, per_epoch)?;
            (self.save)(progress);
        }
        Ok(self.outcome(progress, per_epoch))
    }

    /// A run too short for three steps learned nothing when it skipped every one.
    fn refuse_divergence(&self, progress: &Progress) -> Result<()> {
        let (done, skipped) = (progress.step, progress.skipped_in_a_row);
        let nothing = progress.losses.is_empty();
        if skipped < MAX_SKIPPED && !(done == self.settings.schedule.total && nothing) {
            return Ok(());
        }
        let advice = match nothing {
            // Before the first update the adapter adds nothing, or what it was continued from.
            true => {
                "nothing was trained yet, so the values of the model or of --init-adapter are to blame"
            }
            false => "use a lower --lr or --alpha",
        };
        Err(error!(
            NonFinite,
            "loss or gradient was not finite in steps {} to {done}, so the run stopped",
            done + 1 - skipped
        )
        .hint(format!("{advice}; no adapter was written")))
    }

    fn outcome(&self, progress: &Progress, per_epoch: usize) -> Outcome {
        Outcome {
            status: if progress.step < self.settings.schedule.total {
                Status::Stopped
            } else {
                Status::Completed
            },
            steps: progress.step,
            epochs: progress.step as f64 / per_epoch as f64,
            final_loss: progress.losses.mean(),
        }
    }

    /// Step number `index`, from 0. The loss is divided by the target tokens of the whole step.
    fn step(&self, index: usize, micro: Vec<Vec<usize>>, lr: f64) -> Result<Step> {
        let batches = micro
            .iter()
            .map(|numbers| Batch::new(self.samples, numbers));
        let batches: Vec<Batch> = batches.collect::<Result<_>>()?;
        let targets: usize = batches.iter().map(|batch| batch.target_count).sum();
        let mut grads = Grads::default();
        let (mut loss, mut tokens) = (0.0, 0);
        for batch in &batches {
            let Settings {
                seed,
                activations,
                vocab_slice,
                ..
            } = self.settings;
            let ctx = Ctx::train(batch.rows.clone(), index as u64 + 1, seed);
            let ctx = ctx
                .with_activations(activations)
                .with_vocab_slice(vocab_slice);
            let losses = self.model.losses(&batch.ids, &batch.targets, &ctx)?;
            loss += sum(&losses)?;
            tokens += batch.tokens();
            let seed = vec![1.0 / targets as f32; batch.tokens()];
            backward(losses, Tensor::new(seed, [batch.tokens()])?, &mut grads)?;
        }
        let loss = loss / targets as f64;
        let stats = self.adapter.grad_stats(&grads)?;
        let skipped = !(loss.is_finite() && stats.finite());
        let place = match (skipped, loss.is_finite()) {
            (false, _) => None,
            (true, true) => self.adapter.not_finite(&grads)?,
            (true, false) => Some(self.not_finite(index, &batches)?),
        };
        if !skipped {
            let limit = self.settings.max_grad_norm;
            // torch.nn.utils.clip_grad_norm_: the small constant is its guard against a zero norm.
            let scale = match limit > 0.0 {
                true => (limit / (stats.norm() + 1e-6)).min(1.0),
                false => 1.0,
            };
            self.adapter
                .apply(self.settings.optimizer, lr, scale, &grads)?;
        }
        Ok(Step {
            numbers: micro.concat(),
            loss,
            grad_norm: stats.norm(),
            tokens,
            skipped,
            place,
        })
    }

    /// The first layer whose output is not finite in step `index`, of which the loss is not.
    fn not_finite(&self, index: usize, batches: &[Batch]) -> Result<String> {
        for batch in batches {
            let ctx = Ctx::train(batch.rows.clone(), index as u64 + 1, self.settings.seed);
            if let Some(place) = self.model.first_not_finite(&batch.ids, &ctx)? {
                return Ok(place);
            }
        }
        Ok("the head".to_owned())
    }

    fn after_step(&self, progress: &mut Progress, per_epoch: usize) -> Result<()> {
        self.catch_up(progress, per_epoch)?;
        let (step, every) = (progress.step, self.settings.sample_every);
        let last = step == self.settings.schedule.total;
        if every > 0 && step.is_multiple_of(every) && !last {
            (self.sample)(step)?;
        }
        Ok(())
    }

    /// Evaluates when it is due and was not done: also at the start of a run that was stopped while it evaluated.
    fn catch_up(&self, progress: &mut Progress, per_epoch: usize) -> Result<()> {
        let every = match self.settings.eval_every {
            0 => per_epoch,
            every => every,
        };
        let step = progress.step;
        let due = step.is_multiple_of(every) || step == self.settings.schedule.total;
        if self.eval.is_empty() || step == progress.evaluated || !due {
            return Ok(());
        }
        if let Some(loss) = self.evaluate(step)? {
            progress.evaluated = step;
            if loss.is_finite() && progress.best.is_none_or(|best| loss < best.loss) {
                progress.best = Some(Best { step, loss });
            }
        }
        Ok(())
    }

    /// The mean loss of the held-out samples; none, and nothing is told, when `stop` comes before the last of them.
    pub fn evaluate(&self, step: usize) -> Result<Option<f64>> {
        let (mut loss, mut targets) = (0.0, 0);
        for number in 0..self.eval.len() {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let batch = Batch::new(self.eval, &[number])?;
            let ctx = Ctx::infer(batch.rows.clone());
            let ctx = ctx.with_vocab_slice(self.settings.vocab_slice);
            loss += sum(&self.model.losses(&batch.ids, &batch.targets, &ctx)?)?;
            targets += batch.target_count;
        }
        let loss = loss / targets as f64;
        let perplexity = loss.exp();
        self.listener.event(&Event::Eval {
            step,
            loss,
            perplexity,
        });
        Ok(Some(loss))
    }

    fn warn_skipped(&self, step: usize, at: &Step) {
        let what = if at.loss.is_finite() {
            "gradient"
        } else {
            "loss"
        };
        let mut places: Vec<&str> = at
            .numbers
            .iter()
            .map(|&number| self.samples[number].place.as_str())
            .collect();
        places.dedup();
        places.truncate(3);
        let first = match &at.place {
            Some(place) => format!(", first in {place}"),
            None => String::new(),
        };
        let message = format!(
            "step {step}: the {what} is not finite{first}, so the step was skipped (trained on {})",
            places.join(", ")
        );
        self.listener.event(&Event::Warning {
            code: "NON_FINITE",
            message,
        });
    }

    /// Warns of a loss or gradient of exactly zero, which means that nothing is learned; true when it did.
    fn warn_zero(&self, step: usize, at: &Step) -> bool {
        let what = match (at.loss == 0.0, at.grad_norm == 0.0) {
            (true, _) => "loss",
            (_, true) => "gradient",
            _ => return false,
        };
        let message =
            format!("step {step}: the {what} is exactly 0, so nothing was learned from it");
        self.listener.event(&Event::Warning {
            code: "ZERO",
            message,
        });
        true
    }
}

/// The sum of per-token losses, in f64.
fn sum(losses: &Tensor) -> Result<f64> {
    Ok(losses.values()?.iter().map(|&loss| f64::from(loss)).sum())
}
