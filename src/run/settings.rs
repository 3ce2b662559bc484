//! Options as the numbers a trainer works with: steps, schedule, optimizer.

use crate::data::{Dealer, Plan, Sample};
use crate::error::Result;
use crate::lora::Optimizer;
use crate::tensor::Activations;
use crate::train::{OptimizerName, Schedule, Settings, Shape, TrainOptions, Warmup};

/// The warm-up as given, or its default.
pub fn warmup(options: &TrainOptions) -> Warmup {
    match (&options.warmup, options.lr_scheduler) {
        (Some(warmup), _) => warmup.clone(),
        (None, Shape::Constant) => Warmup::Steps(0),
        (None, _) => Warmup::Text("3%".to_owned()),
    }
}

/// The settings of a run over `samples`, with `seq_len` tokens in a packed row.
pub fn settings(options: &TrainOptions, samples: &[Sample], seq_len: usize) -> Result<Settings> {
    let plan = Plan {
        batch_size: options.batch_size,
        grad_accum: options.grad_accum,
        shuffle_seed: (!options.no_shuffle).then_some(options.seed),
        packing: options.packing.then_some(seq_len),
    };
    let by_epochs = Dealer::new(plan, samples)
        .steps_per_epoch()
        .saturating_mul(options.epochs);
    let total = match options.max_steps {
        0 => by_epochs,
        steps => steps.min(by_epochs),
    };
    let warmup = warmup(options).steps(total)?;
    let optimizer = match options.optimizer {
        OptimizerName::Adamw => Optimizer::adamw(options.weight_decay),
        OptimizerName::Sgd => Optimizer::Sgd {
            weight_decay: options.weight_decay,
        },
    };
    Ok(Settings {
        plan,
        schedule: Schedule {
            lr: options.lr,
            shape: options.lr_scheduler,
            warmup,
            total,
        },
        optimizer,
        max_grad_norm: options.max_grad_norm,
        eval_every: options.eval_every,
        sample_every: options.sample_every,
        seed: options.seed,
        activations: Activations::Replayed,
        vocab_slice: options.vocab_slice(),
    })
}
