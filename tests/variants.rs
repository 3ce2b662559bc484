//! Every kind of adapter against PEFT: logits, gradients and ten steps of AdamW from the same start, read from PEFT's own
//! files. Made by `__test__/reference/variants.py`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use amv_train::autograd::backward;
use amv_train::data::{Batch, Plan, Sample};
use amv_train::format::safetensors::Safetensors;
use amv_train::format::{Checkpoint, adapter};
use amv_train::lora::{Adapter, LoraConfig, Optimizer, Part};
use amv_train::models::{Decoder, adapter_base};
use amv_train::nn::Loader;
use amv_train::ops::IGNORED;
use amv_train::tensor::{Activations, Ctx, Grads, Rows, Tensor};
use amv_train::train::{Event, Listener, Progress, Schedule, Settings, Shape, Trainer};
use serde_json::Value;

/// f32 against f64 PyTorch, relative to the largest value.
const LOGITS: f64 = 1e-4;
const GRADIENTS: f64 = 1e-3;
/// Of a loss, in nats: f32 roundings grow over ten steps.
const LOSS: f64 = 1e-4;

fn fixtures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("__test__/fixtures")
        .join(name)
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A base with the adapter that PEFT saved, ready to train.
struct Setup {
    base: adapter::Base,
    checkpoint: Checkpoint,
    adapter: Arc<Adapter>,
    model: Decoder,
}

fn setup(model: &Path, variant: &str) -> Setup {
    let checkpoint = Checkpoint::open(model).unwrap();
    let base = adapter_base(&checkpoint).unwrap();
    let directory = fixtures("variants").join(variant);
    let saved = adapter::read(&directory, &base).unwrap();
    let settings = json(&directory.join("adapter_config.json"));
    let config = LoraConfig {
        dropout: settings["lora_dropout"].as_f64().unwrap() as f32,
        ..saved.config
    };
    base.check(&config).unwrap();
    let adapter = Adapter::continuing(config, saved.pairs);
    let loader = Loader::new(checkpoint.source(), Some(adapter.clone()));
    let model = Decoder::load(checkpoint.config(), &loader).unwrap();
    Setup {
        base,
        checkpoint,
        adapter,
        model,
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

fn close(what: &str, ours: &[f32], expected: &[f32], tolerance: f64) {
    assert_eq!(ours.len(), expected.len(), "{what}: count");
    let largest = expected.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    let differences = ours.iter().zip(expected).map(|(a, b)| (a - b).abs());
    let error = f64::from(differences.fold(0.0_f32, f32::max) / largest);
    assert!(
        error <= tolerance,
        "{what}: off by {error:.1e} of the largest"
    );
}

/// Values of PEFT's with the rows of B, or of magnitudes, as the base has them.
fn in_order(base: &adapter::Base, name: &str, expected: Vec<f32>) -> Vec<f32> {
    let Some((path, Part::B | Part::Magnitude)) = Part::of_peft_name(name) else {
        return expected;
    };
    let (outputs, _) = base
        .sites()
        .into_iter()
        .find(|site| site.path == path)
        .map(|site| (site.outputs, site.inputs))
        .unwrap();
    let matrix = amv_train::lora::Matrix {
        rows: outputs,
        columns: expected.len() / outputs,
        values: expected,
    };
    let from = adapter::RowOrder::HuggingFace;
    base.reorder(path, matrix, from, base.row_order())
        .unwrap()
        .values
}

fn check_start(setup: &Setup, expected: &Safetensors, samples: &[Sample]) {
    let values = |name: &str| expected.weight(name).unwrap().to_f32().unwrap();
    for (index, sample) in samples.iter().enumerate() {
        let time = sample.ids.len();
        let ids = Tensor::of_u32(sample.ids.clone(), [time]).unwrap();
        let ctx = Ctx::infer(Rows::of_samples(&[(0, time)]).unwrap());
        let logits = setup.model.logits(&ids, &ctx).unwrap();
        let expected = values(&format!("logits.{index}"));
        close(
            &format!("logits {index}"),
            logits.values().unwrap(),
            &expected,
            LOGITS,
        );
    }
    // The gradients of the first step, with its dropout masks.
    let batch = Batch::new(samples, &[0, 1]).unwrap();
    let ctx = Ctx::train(batch.rows.clone(), 1, 0);
    let losses = setup
        .model
        .losses(&batch.ids, &batch.targets, &ctx)
        .unwrap();
    let seed = vec![1.0 / batch.target_count as f32; batch.tokens()];
    let mut grads = Grads::default();
    backward(
        losses,
        Tensor::new(seed, [batch.tokens()]).unwrap(),
        &mut grads,
    )
    .unwrap();
    let mut names = Vec::new();
    setup
        .adapter
        .each_parameter(|parameter| {
            let name = format!("grad.{}", parameter.name);
            let theirs = in_order(&setup.base, &parameter.name, values(&name));
            let ours = grads.get(parameter.value).unwrap();
            close(&name, ours.values()?, &theirs, GRADIENTS);
            names.push(name);
            Ok(())
        })
        .unwrap();
    let count = expected
        .tensor_names()
        .filter(|name| name.starts_with("grad."));
    assert_eq!(names.len(), count.count(), "gradients PEFT has");
}

/// A new adapter has the magnitudes that PEFT gives it.
fn check_magnitudes(setup: &Setup, expected: &Safetensors) {
    let fresh = Adapter::new(setup.adapter.config().clone());
    let loader = Loader::new(setup.checkpoint.source(), Some(fresh.clone()));
    Decoder::load(setup.checkpoint.config(), &loader).unwrap();
    fresh
        .each_parameter(|parameter| {
            let name = format!("initial.{}", parameter.name);
            if parameter.name.ends_with("magnitude_vector") {
                let theirs = expected.weight(&name)?.to_f32()?;
                let theirs = in_order(&setup.base, &parameter.name, theirs);
                close(&name, parameter.value.values()?, &theirs, 1e-6);
            }
            Ok(())
        })
        .unwrap();
}

#[derive(Default)]
struct Steps(Mutex<Vec<(f64, f64)>>);

impl Listener for Steps {
    fn event(&self, event: &Event) {
        if let Event::Step {
            loss, grad_norm, ..
        } = event
        {
            self.0.lock().unwrap().push((*loss, *grad_norm));
        }
    }
}

fn check(variant: &str, model: &Path) {
    let directory = fixtures("variants").join(variant);
    let run = json(&fixtures("variants/run.json"));
    let ids: Vec<Vec<u32>> = serde_json::from_value(run["input_ids"].clone()).unwrap();
    let (samples, setup) = (samples(&ids), setup(model, variant));
    let expected = Safetensors::open(&directory.join("expected.safetensors")).unwrap();
    check_start(&setup, &expected, &samples);
    check_magnitudes(&setup, &expected);

    let facts = json(&directory.join("expected.json"));
    let total = facts["loss"].as_array().unwrap().len();
    let steps = Steps::default();
    let trainer = Trainer {
        model: &setup.model,
        adapter: &setup.adapter,
        samples: &samples,
        eval: &[],
        settings: Settings {
            activations: Activations::Replayed,
            vocab_slice: None,
            plan: Plan {
                batch_size: 2,
                grad_accum: 1,
                shuffle_seed: None,
                packing: None,
            },
            schedule: Schedule {
                lr: run["lr"].as_f64().unwrap(),
                shape: Shape::Constant,
                warmup: 0,
                total,
            },
            optimizer: Optimizer::adamw(0.0),
            max_grad_norm: run["max_grad_norm"].as_f64().unwrap(),
            eval_every: 0,
            sample_every: 0,
            seed: 0,
        },
        listener: &steps,
        stop: &AtomicBool::new(false),
        sample: &|_| Ok(()),
        save: &|_| (),
    };
    trainer.run(&mut Progress::default()).unwrap();
    let steps = steps.0.into_inner().unwrap();
    assert_eq!(steps.len(), total);
    let (mut worst, mut worst_norm) = (0.0_f64, 0.0_f64);
    for (index, (loss, norm)) in steps.into_iter().enumerate() {
        let expected = |key: &str| facts[key][index].as_f64().unwrap();
        worst = worst.max((loss - expected("loss")).abs());
        worst_norm = worst_norm.max((norm / expected("grad_norm") - 1.0).abs());
    }
    println!(
        "{variant} on {}: losses within {worst:.1e}, gradient norms within {worst_norm:.1e}",
        model.display()
    );
    assert!(
        worst < LOSS && worst_norm < 5e-3,
        "{variant}: {worst:.1e}, {worst_norm:.1e}"
    );
}

fn check_both(variant: &str) {
    let model = fixtures("models/llama_bias");
    for model in [model.clone(), model.join("model.gguf")] {
        check(variant, &model);
    }
}

macro_rules! variants {
    ($($name:ident)*) => { $(#[test] fn $name() { check_both(stringify!($name)); })* };
}

variants!(dropout dora dora_dropout rslora patterns layers embeddings everything);

#[test]
fn a_model_in_which_nothing_learns_keeps_no_graph() {
    let checkpoint = Checkpoint::open(&fixtures("models/llama_bias")).unwrap();
    let loader = Loader::new(checkpoint.source(), None);
    let model = Decoder::load(checkpoint.config(), &loader).unwrap();
    let batch = Batch::new(&samples(&[(3..20).collect()]), &[0]).unwrap();
    let ctx = Ctx::train(batch.rows.clone(), 1, 0);
    let losses = model.losses(&batch.ids, &batch.targets, &ctx).unwrap();
    assert!(!losses.tracked());
}

#[test]
fn a_quantised_base_trains_as_peft_does_on_its_unpacked_weights() {
    check("quantised", &fixtures("variants/base_q4_0.gguf"));
}
