//! The training loop against PyTorch: ten steps of AdamW and SGD with clipping, warm-up and cosine, from a known adapter.
//! The fixtures are made by `__test__/reference/training.py`.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use amv_train::data::{Plan, Sample};
use amv_train::format::{Checkpoint, adapter};
use amv_train::lora::{Adapter, LoraConfig, Optimizer, Pair};
use amv_train::models::{Decoder, adapter_base};
use amv_train::nn::Loader;
use amv_train::ops::IGNORED;
use amv_train::tensor::Activations;
use amv_train::train::{
    Event, Listener, Outcome, Progress, Schedule, Settings, Shape, Status, Trainer,
};
use serde_json::Value;

fn fixtures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("__test__/fixtures")
        .join(name)
}

#[derive(Default)]
struct Heard(Mutex<Vec<Event>>);

impl Listener for Heard {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

fn samples(ids: &[Vec<u32>]) -> Vec<Sample> {
    let sample = |ids: &Vec<u32>| Sample {
        targets: ids[1..].iter().copied().chain([IGNORED]).collect(),
        ids: ids.clone(),
        place: "fixture".to_owned(),
    };
    ids.iter().map(sample).collect()
}

/// A model with an adapter, ready to train.
struct Setup {
    model: Decoder,
    adapter: std::sync::Arc<Adapter>,
    base: adapter::Base,
}

fn setup(model: &Path, init: Option<&Path>, dropout: f32) -> Setup {
    let checkpoint = Checkpoint::open(model).unwrap();
    let base = adapter_base(&checkpoint).unwrap();
    let config = LoraConfig {
        rank: 4,
        alpha: 8.0,
        dropout,
        seed: 3,
        ..LoraConfig::default()
    };
    let adapter = match init.map(|path| adapter::read(path, &base).unwrap()) {
        Some(saved) => {
            let config = LoraConfig {
                dropout,
                ..saved.config
            };
            Adapter::continuing(config, saved.pairs)
        }
        None => Adapter::new(config),
    };
    let loader = Loader::new(checkpoint.source(), Some(adapter.clone()));
    let model = Decoder::load(checkpoint.config(), &loader).unwrap();
    Setup {
        model,
        adapter,
        base,
    }
}

fn settings(micro: (usize, usize), total: usize) -> Settings {
    let (batch_size, grad_accum) = micro;
    Settings {
        activations: Activations::Replayed,
        vocab_slice: None,
        plan: Plan {
            batch_size,
            grad_accum,
            shuffle_seed: None,
            packing: None,
        },
        schedule: Schedule {
            lr: 1e-2,
            shape: Shape::Constant,
            warmup: 0,
            total,
        },
        optimizer: Optimizer::adamw(0.0),
        max_grad_norm: 1.0,
        eval_every: 0,
        sample_every: 0,
        seed: 0,
    }
}

fn run(setup: &Setup, samples: &[Sample], settings: Settings) -> (Outcome, Vec<(f64, f64, f64)>) {
    let heard = Heard::default();
    let trainer = Trainer {
        model: &setup.model,
        adapter: &setup.adapter,
        samples,
        eval: &[],
        settings,
        listener: &heard,
        stop: &AtomicBool::new(false),
        sample: &|_| Ok(()),
        save: &|_| (),
    };
    let outcome = trainer.run(&mut Progress::default()).unwrap();
    let steps = heard.0.into_inner().unwrap();
    let steps = steps.into_iter().filter_map(|event| match event {
        Event::Step {
            loss,
            lr,
            grad_norm,
            ..
        } => Some((loss, lr, grad_norm)),
        _ => None,
    });
    (outcome, steps.collect())
}

/// The relative distance of two sets of factors, measured by the change from `first`.
fn distance(ours: &Pair, theirs: &Pair, first: &Pair) -> (f64, f64) {
    let one = |ours: &[f32], theirs: &[f32], first: &[f32]| {
        let square = |a: &[f32], b: &[f32]| {
            a.iter()
                .zip(b)
                .map(|(a, b)| f64::from(a - b).powi(2))
                .sum::<f64>()
        };
        (square(ours, theirs) / square(theirs, first)).sqrt()
    };
    (
        one(&ours.a.values, &theirs.a.values, &first.a.values),
        one(&ours.b.values, &theirs.b.values, &first.b.values),
    )
}

fn check_optimizer(name: &str, make: impl Fn(f64) -> Optimizer, micro: (usize, usize)) {
    let dir = fixtures("training");
    let expected: Value =
        serde_json::from_str(&std::fs::read_to_string(dir.join("expected.json")).unwrap()).unwrap();
    let ids: Vec<Vec<u32>> = serde_json::from_value(expected["input_ids"].clone()).unwrap();
    let samples = samples(&ids);
    let number = |key: &str| expected[key].as_f64().unwrap();
    let of_run = &expected[name];
    let model = fixtures("models").join(expected["model"].as_str().unwrap());
    for model in [model.clone(), model.join("model.gguf")] {
        let setup = setup(&model, Some(&dir.join("init_adapter")), 0.0);
        let settings = Settings {
            activations: Activations::Replayed,
            vocab_slice: None,
            schedule: Schedule {
                lr: of_run["base_lr"].as_f64().unwrap(),
                shape: Shape::Cosine,
                warmup: number("warmup") as usize,
                total: number("steps") as usize,
            },
            optimizer: make(number("weight_decay")),
            max_grad_norm: number("max_grad_norm"),
            ..settings(micro, 0)
        };
        let (_, steps) = run(&setup, &samples, settings);
        for (i, (loss, lr, norm)) in steps.iter().enumerate() {
            let expected = |key: &str| of_run[key][i].as_f64().unwrap();
            assert!(
                (loss - expected("loss")).abs() < 1e-3,
                "{name} step {i}: loss {loss} not {}",
                expected("loss")
            );
            assert!(
                (lr - expected("lr")).abs() < 1e-9,
                "{name} step {i}: lr {lr} not {}",
                expected("lr")
            );
            let error = (norm / expected("grad_norm") - 1.0).abs();
            assert!(
                error < 5e-3,
                "{name} step {i}: gradient norm {norm} not {}",
                expected("grad_norm")
            );
        }
        let first = adapter::read(&dir.join("init_adapter"), &setup.base).unwrap();
        let last = adapter::read(&dir.join(name), &setup.base).unwrap();
        for (path, ours) in setup.adapter.pairs().unwrap() {
            let (a, b) = distance(&ours, &last.pairs[&path], &first.pairs[&path]);
            assert!(
                a < 0.02 && b < 0.02,
                "{name} {path}: update of A off by {a:.4}, of B by {b:.4}"
            );
        }
    }
}

#[test]
fn adamw_follows_pytorch_for_ten_steps() {
    check_optimizer("adamw", Optimizer::adamw, (2, 1));
}

#[test]
fn sgd_follows_pytorch_for_ten_steps_in_accumulated_batches() {
    check_optimizer(
        "sgd",
        |weight_decay| Optimizer::Sgd { weight_decay },
        (1, 2),
    );
}

#[test]
fn a_batch_of_two_equals_two_accumulated_batches_of_one() {
    let samples = samples(&[
        (3..13).collect(),
        (0..60).map(|i| (i * 7 + 3) % 70).collect(),
    ]);
    let losses = |micro, dropout| {
        let setup = setup(&fixtures("models/llama_gqa_tied"), None, dropout);
        let (_, steps) = run(&setup, &samples, settings(micro, 4));
        (steps, setup.adapter.pairs().unwrap())
    };
    for dropout in [0.0, 0.3] {
        let (together, apart) = (losses((2, 1), dropout), losses((1, 2), dropout));
        for (one, two) in together.0.iter().zip(&apart.0) {
            assert!(
                (one.0 - two.0).abs() < 1e-6 * one.0,
                "loss {} and {}",
                one.0,
                two.0
            );
            assert!(
                (one.2 - two.2).abs() < 1e-5 * one.2,
                "gradient norm {} and {}",
                one.2,
                two.2
            );
        }
    }
}

#[test]
fn packed_rows_give_the_losses_of_their_samples_alone() {
    let text = |length: u32, seed: u32| (0..length).map(|i| (i * 7 + seed) % 70).collect();
    let all: [Vec<u32>; 4] = [text(10, 3), text(60, 5), text(20, 11), text(12, 1)];
    // Rows of 72 tokens: the second and the last sample, then the others.
    let in_rows = [1, 3, 0, 2].map(|number: usize| all[number].clone());
    let train = |ids: &[Vec<u32>], micro, packing| {
        let setup = setup(&fixtures("models/llama_gqa_tied"), None, 0.0);
        let mut settings = settings(micro, 4);
        settings.plan.packing = packing;
        let (_, steps) = run(&setup, &samples(ids), settings);
        (steps, setup.adapter.pairs().unwrap())
    };
    let packed = train(&all, (1, 1), Some(72));
    let together = train(&in_rows, (2, 1), None);
    assert_eq!(packed, together);
    let alone = train(&in_rows, (1, 2), None);
    for (packed, alone) in packed.0.iter().zip(&alone.0) {
        let (difference, size) = (packed.0 - alone.0, alone.0);
        assert!(
            difference.abs() < 1e-6 * size,
            "loss {} and {size}",
            packed.0
        );
        assert!((packed.2 / alone.2 - 1.0).abs() < 1e-5);
    }
}

#[test]
fn every_family_overfits_four_examples() {
    let text =
        |seed: u32| -> Vec<u32> { (0..12).map(|i| (seed * 17 + i * i * 5 + 3) % 71).collect() };
    let samples = samples(&[text(0), text(1), text(2), text(3)]);
    for case in [
        "llama_gqa_tied",
        "qwen2",
        "qwen3",
        "gemma2",
        "gemma3",
        "phi3",
    ] {
        let setup = setup(&fixtures("models").join(case), None, 0.0);
        let (outcome, steps) = run(&setup, &samples, settings((4, 1), 150));
        let (first, last) = (steps[0].0, outcome.final_loss);
        assert!(
            last < 0.5 * first && last < 2.0,
            "{case}: loss {first} to {last}"
        );
    }
}

#[test]
fn three_steps_that_are_not_finite_end_the_run_and_leave_the_adapter_alone() {
    let samples = samples(&[(3..13).collect()]);
    let setup = setup(&fixtures("models/llama_gqa_tied"), None, 0.0);
    let before = setup.adapter.pairs().unwrap();
    let heard = Heard::default();
    let trainer = Trainer {
        model: &setup.model,
        adapter: &setup.adapter,
        samples: &samples,
        eval: &[],
        // A weight decay that overflows f32 at the first update makes every later step infinite.
        settings: Settings {
            activations: Activations::Replayed,
            vocab_slice: None,
            optimizer: Optimizer::adamw(1e40),
            ..settings((1, 1), 20)
        },
        listener: &heard,
        stop: &AtomicBool::new(false),
        sample: &|_| Ok(()),
        save: &|_| (),
    };
    let error = trainer.run(&mut Progress::default()).unwrap_err();
    assert_eq!(error.code.name(), "NON_FINITE");
    let events = heard.0.into_inner().unwrap();
    let skipped = events
        .iter()
        .filter(|event| matches!(event, Event::Step { skipped: true, .. }))
        .count();
    let named = events
        .iter()
        .filter(|event| {
            matches!(
                event,
                Event::Warning {
                    code: "NON_FINITE",
                    ..
                }
            )
        })
        .count();
    assert_eq!((skipped, named), (3, 3));
    let nulls = events.iter().any(|event| {
        serde_json::to_string(event)
            .unwrap()
            .contains("\"loss\":null")
    });
    assert!(nulls, "a loss that is not finite is null in JSON");
    let named = events.iter().any(|event| {
        matches!(event, Event::Warning { message, .. } if message.contains("not finite, first in model.layers.0"))
    });
    assert!(named, "the first layer that is not finite has a name");
    assert_ne!(
        before,
        setup.adapter.pairs().unwrap(),
        "the first, finite step did change it"
    );
}

#[test]
fn a_short_run_that_skips_every_step_is_an_error() {
    let samples = samples(&[(3..13).collect()]);
    let setup = setup(&fixtures("models/llama_gqa_tied"), None, 0.0);
    let train = |total| {
        let trainer = Trainer {
            model: &setup.model,
            adapter: &setup.adapter,
            samples: &samples,
            eval: &[],
            settings: Settings {
                activations: Activations::Replayed,
                vocab_slice: None,
                optimizer: Optimizer::adamw(1e40),
                ..settings((1, 1), total)
            },
            listener: &Heard::default(),
            stop: &AtomicBool::new(false),
            sample: &|_| Ok(()),
            save: &|_| (),
        };
        trainer.run(&mut Progress::default())
    };
    train(1).unwrap();
    assert_eq!(train(2).unwrap_err().code.name(), "NON_FINITE");
}

#[test]
fn stop_ends_the_run_after_its_step() {
    let samples = samples(&[(3..13).collect()]);
    let setup = setup(&fixtures("models/llama_gqa_tied"), None, 0.0);
    let stop = AtomicBool::new(false);
    struct StopAt<'a>(&'a AtomicBool);
    impl Listener for StopAt<'_> {
        fn event(&self, event: &Event) {
            if matches!(event, Event::Step { step: 3, .. }) {
                self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }
    let trainer = Trainer {
        model: &setup.model,
        adapter: &setup.adapter,
        samples: &samples,
        eval: &[],
        settings: settings((1, 1), 20),
        listener: &StopAt(&stop),
        stop: &stop,
        sample: &|_| Ok(()),
        save: &|_| (),
    };
    let outcome = trainer.run(&mut Progress::default()).unwrap();
    assert_eq!((outcome.status, outcome.steps), (Status::Stopped, 3));
}
