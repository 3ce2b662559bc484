//! SmolLM2-135M against PEFT: token ids, losses, gradient norms and the update of twelve steps, with known results.
//!
//! Needs target/parity/SmolLM2-135M-Instruct.Q4_1.gguf (`__test__/reference/fetch-smollm2.sh` puts it there),
//! ../shared/parity/smollm2 with the expectations, and Debian's copy of the GPL.

mod texts;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use amv_train::data::{Batch, Eos, Plan, Sample, Tokenizer};
use amv_train::format::adapter::{self, SavedAdapter};
use amv_train::format::{Checkpoint, safetensors::Safetensors};
use amv_train::lora::{Adapter, LoraConfig, Matrix, Optimizer, Pair, Targets};
use amv_train::models::{Decoder, adapter_base};
use amv_train::nn::Loader;
use amv_train::tensor::{Activations, Ctx};
use amv_train::train::{Event, Listener, Progress, Schedule, Settings, Shape, Trainer};
use serde_json::Value;
use texts::text_samples;

const STEPS: usize = 12;

/// The files of the run, or `None` with a message when some are not here.
struct Files {
    model: PathBuf,
    shared: PathBuf,
    text: PathBuf,
}

fn files() -> Option<Files> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = Files {
        model: root.join("target/parity/SmolLM2-135M-Instruct.Q4_1.gguf"),
        shared: root.join("../shared/parity/smollm2"),
        text: PathBuf::from("/usr/share/common-licenses/GPL-3"),
    };
    let missing = [&files.model, &files.shared, &files.text]
        .into_iter()
        .find(|path| !path.exists());
    let Some(missing) = missing else {
        return Some(files);
    };
    let strict = std::env::var_os("AMV_TEST_STRICT").is_some();
    assert!(!strict, "{} is missing", missing.display());
    eprintln!("skipped: {} is missing", missing.display());
    None
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

fn mean_loss(model: &Decoder, samples: &[Sample], number: usize) -> f64 {
    let batch = Batch::new(samples, &[number]).unwrap();
    let ctx = Ctx::infer(batch.rows.clone());
    let losses = model.losses(&batch.ids, &batch.targets, &ctx).unwrap();
    let sum: f64 = losses
        .values()
        .unwrap()
        .iter()
        .map(|&loss| f64::from(loss))
        .sum();
    sum / batch.target_count as f64
}

/// ‖(ours − first) − (theirs − first)‖ / ‖theirs − first‖ over all layers, of one of the two factors.
fn update_error(
    ours: &SavedAdapter,
    theirs: &SavedAdapter,
    first: &SavedAdapter,
    pick: fn(&Pair) -> &Matrix,
) -> f64 {
    let (mut difference, mut norm) = (0.0, 0.0);
    for (path, first) in &first.pairs {
        let (ours, theirs) = (pick(&ours.pairs[path]), pick(&theirs.pairs[path]));
        for ((ours, theirs), first) in ours
            .values
            .iter()
            .zip(&theirs.values)
            .zip(&pick(first).values)
        {
            difference += f64::from(ours - theirs).powi(2);
            norm += f64::from(theirs - first).powi(2);
        }
    }
    (difference / norm).sqrt()
}

#[test]
fn smollm2_trains_as_peft_does() {
    let Some(files) = files() else { return };
    let expected = std::fs::read_to_string(files.shared.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let number = |key: &str, index: usize| expected[key][index].as_f64().unwrap();

    let checkpoint = Checkpoint::open(&files.model).unwrap();
    let tokenizer = Tokenizer::from_gguf(checkpoint.gguf().unwrap()).unwrap();
    let text = std::fs::read_to_string(&files.text).unwrap();
    let samples = text_samples(&text, &tokenizer, 256, Eos::Never);
    let ids: Vec<u32> = samples
        .iter()
        .flat_map(|sample| sample.ids.clone())
        .collect();
    let expected_ids: Vec<u32> = serde_json::from_value(expected["ids"].clone()).unwrap();
    assert_eq!(ids, expected_ids);

    let base = adapter_base(&checkpoint).unwrap();
    let read = |name: &str| adapter::read(&files.shared.join(name), &base).unwrap();
    let (first, last) = (read("init_adapter"), read("final_adapter"));
    let load = |saved: Option<&SavedAdapter>| {
        let config = LoraConfig {
            rank: 4,
            alpha: 8.0,
            targets: Targets::parse("q_proj,v_proj").unwrap(),
            ..LoraConfig::default()
        };
        let adapter = saved.map(|saved| Adapter::continuing(config, saved.pairs.clone()));
        let loader = Loader::new(checkpoint.source(), adapter.clone());
        (
            Decoder::load(checkpoint.config(), &loader).unwrap(),
            adapter,
        )
    };

    let (plain, _) = load(None);
    let (imported, _) = load(Some(&last));
    for index in 0..STEPS {
        let loss = mean_loss(&plain, &samples, index);
        assert!(
            (loss - number("base_loss", index)).abs() < 1e-3,
            "chunk {index}: base loss {loss}"
        );
        let loss = mean_loss(&imported, &samples, index);
        assert!(
            (loss - number("after_loss", index)).abs() < 1e-3,
            "chunk {index}: loss with the adapter {loss}"
        );
    }

    let (model, adapter) = load(Some(&first));
    let adapter = adapter.unwrap();
    let steps = Steps::default();
    let trainer = Trainer {
        model: &model,
        adapter: &adapter,
        samples: &samples,
        eval: &[],
        settings: Settings {
            activations: Activations::Replayed,
            vocab_slice: None,
            plan: Plan {
                batch_size: 1,
                grad_accum: 1,
                shuffle_seed: None,
                packing: None,
            },
            schedule: Schedule {
                lr: 3e-3,
                shape: Shape::Constant,
                warmup: 0,
                total: STEPS,
            },
            optimizer: Optimizer::adamw(0.0),
            max_grad_norm: 0.0,
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
    for (index, (loss, norm)) in steps.0.into_inner().unwrap().into_iter().enumerate() {
        let (expected, expected_norm) = (number("train_loss", index), number("grad_norm", index));
        assert!(
            (loss - expected).abs() < 1e-3,
            "step {index}: loss {loss} instead of {expected}"
        );
        let error = (norm / expected_norm - 1.0).abs();
        assert!(
            error < 5e-3,
            "step {index}: gradient norm {norm} instead of {expected_norm}"
        );
    }
    let ours = SavedAdapter {
        pairs: adapter.pairs().unwrap(),
        ..first.clone()
    };
    let a = update_error(&ours, &last, &first, |pair| &pair.a);
    let b = update_error(&ours, &last, &first, |pair| &pair.b);
    eprintln!("update of A off by {a:.4}, of B by {b:.4}");
    assert!(
        a < 0.02 && b < 0.02,
        "update of A off by {a:.4}, of B by {b:.4}"
    );
    // Keeps the fixture itself honest: its tensors are those the reader handed out.
    let file =
        Safetensors::open(&files.shared.join("init_adapter/adapter_model.safetensors")).unwrap();
    assert_eq!(file.tensor_names().count(), 2 * first.pairs.len());
}
