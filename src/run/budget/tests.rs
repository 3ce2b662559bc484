use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::error::Code;
use crate::models;
use crate::run::Package;

#[derive(Default)]
struct Codes(Mutex<Vec<&'static str>>);

impl Listener for Codes {
    fn event(&self, event: &Event) {
        if let Event::Warning { code, .. } = event {
            self.0.lock().unwrap().push(code);
        }
    }
}

/// Calls `each` with a budget for the built-in model, 8 samples of 256 tokens a step, and the plan asked for.
fn with_budget(fit: bool, each: impl Fn(Budget, MemoryPlan)) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("builtin");
    let package = Package {
        dir,
        ..Package::default()
    };
    let options = TrainOptions {
        batch_size: 8,
        seq_len: Some(256),
        fit,
        checkpointing: CheckpointingOption::On,
        ..TrainOptions::default()
    };
    let base = Base::open(&package.model_path(&options.model)).unwrap();
    let (data, stop) = (package.sample_corpus(), AtomicBool::new(false));
    let corpus = samples::read(
        &options,
        &data,
        &base,
        std::time::UNIX_EPOCH,
        &Codes::default(),
        &stop,
    )
    .unwrap();
    let adapter_base = models::adapter_base(&base.checkpoint).unwrap();
    let lora = LoraConfig::default();
    let measured = Measured::default();
    let budget = Budget::new(&options, &base, &adapter_base, &lora, &corpus, measured).unwrap();
    let plan = budget.plan(&budget.asked());
    each(budget, plan);
}

const GUARD: u64 = 300 << 20;

#[test]
fn a_run_that_leaves_less_than_the_guard_band_is_refused_with_flags_that_fit() {
    with_budget(false, |budget, plan| {
        let enough = plan.total as u64 + GUARD;
        let budget = Budget {
            free: Some(enough),
            ..budget
        };
        assert_eq!(budget.decide(&Codes::default()).unwrap().batch_size, 8);
        let budget = Budget {
            free: Some(plan.required as u64 + GUARD - 1),
            ..budget
        };
        let error = budget.decide(&Codes::default()).err().unwrap();
        assert_eq!(error.code, Code::OutOfMemory);
        assert!(
            error
                .hint
                .unwrap()
                .ends_with("--batch-size 4 --grad-accum 2")
        );
        let budget = Budget {
            free: Some(GUARD),
            ..budget
        };
        let error = budget.decide(&Codes::default()).err().unwrap();
        assert!(error.hint.unwrap().contains("smaller model"));
        assert!(budget.suggestion().is_none());
    });
}

#[test]
fn fit_keeps_the_samples_of_a_step_and_says_so() {
    with_budget(true, |budget, plan| {
        let budget = Budget {
            free: Some(plan.required as u64 + GUARD - 1),
            ..budget
        };
        let heard = Codes::default();
        let sized = budget.decide(&heard).unwrap();
        assert_eq!((sized.batch_size, sized.grad_accum), (4, 2));
        assert!(heard.0.into_inner().unwrap().contains(&"FIT"));
    });
}

#[test]
fn shorter_samples_are_suggested_where_no_batch_fits() {
    with_budget(false, |budget, _| {
        let shorter = Choice {
            batch_size: 1,
            grad_accum: 8,
            seq_len: Some(64),
            ..budget.asked()
        };
        let room = budget.plan(&shorter).required as u64;
        let budget = Budget {
            free: Some(room + GUARD),
            ..budget
        };
        let (choice, _) = budget.suggestion().unwrap();
        assert_eq!((choice.batch_size, choice.seq_len), (1, Some(64)));
        assert_eq!(
            budget.flags(&choice),
            "--batch-size 1 --grad-accum 8 --seq-len 64"
        );
    });
}

#[test]
fn activations_are_kept_where_that_leaves_the_guard_band() {
    with_budget(false, |budget, replayed| {
        let options = TrainOptions {
            checkpointing: CheckpointingOption::Auto,
            ..budget.options.clone()
        };
        let with_free = |free: Option<u64>| Budget {
            options: &options,
            free,
            lengths: budget.lengths.clone(),
            ..budget
        };
        let kept = with_free(Some(u64::MAX)).asked();
        assert_eq!(kept.activations, Activations::Kept);
        let enough = budget.plan(&kept).total as u64 + GUARD;
        assert!(enough > replayed.total as u64 + GUARD);
        for (free, activations) in [
            (Some(enough), Activations::Kept),
            (Some(enough - 1), Activations::Replayed),
            (None, Activations::Replayed),
        ] {
            assert_eq!(with_free(free).asked().activations, activations, "{free:?}");
        }
    });
}

#[test]
fn a_run_that_was_told_to_keep_activations_and_cannot_is_shown_how_it_fits() {
    with_budget(false, |budget, replayed| {
        let options = TrainOptions {
            checkpointing: CheckpointingOption::Off,
            ..budget.options.clone()
        };
        let budget = Budget {
            options: &options,
            free: Some(replayed.total as u64 + GUARD),
            ..budget
        };
        let error = budget.decide(&Codes::default()).err().unwrap();
        assert!(error.hint.unwrap().ends_with(": --checkpointing on"));
    });
}

#[test]
fn what_is_not_known_is_said_and_refuses_nothing() {
    with_budget(false, |budget, _| {
        let budget = Budget {
            free: None,
            ..budget
        };
        let heard = Codes::default();
        assert_eq!(budget.decide(&heard).unwrap().batch_size, 8);
        assert_eq!(heard.0.into_inner().unwrap(), ["MEMORY_UNKNOWN"]);
    });
}
