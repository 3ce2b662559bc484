//! Whole runs on the built-in model, from options to files: what users of such trainers ran into.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use amv_train::data::Tokenizer;
use amv_train::error::{Code, Error};
use amv_train::format::gguf::{self, Metadata, Value};
use amv_train::format::{Checkpoint, adapter};
use amv_train::generate::{Sampler, generate};
use amv_train::lora::{Adapter, LoraConfig};
use amv_train::models::{Decoder, adapter_base};
use amv_train::nn::Loader;
use amv_train::run::{Package, inspect, train};
use amv_train::train::{Event, Listener, TrainOptions};
use serde_json::json;

#[derive(Default)]
struct Heard(Mutex<Vec<Event>>);

impl Listener for Heard {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

fn package() -> Package {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("builtin");
    Package { dir }
}

/// A folder with the data of a run.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new(data: &str) -> Desk {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("data.txt"), data).unwrap();
        std::fs::write(folder.path().join("data.jsonl"), data).unwrap();
        Desk { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Runs with `options` over the defaults: data.txt, output `out/`.
    fn run(&self, options: serde_json::Value) -> (Result<Event, Error>, Vec<Event>) {
        let mut all = json!({ "data": self.text("data.txt"), "output": self.text("out/") });
        let given = options.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(given);
        let options: TrainOptions = serde_json::from_value(all).unwrap();
        let heard = Heard::default();
        let end = train(&options, &package(), &heard, &AtomicBool::new(false));
        (end, heard.0.into_inner().unwrap())
    }
}

/// (loss, tokens) of every step.
fn steps(events: &[Event]) -> Vec<(f64, usize)> {
    let step = |event: &Event| match event {
        Event::Step { loss, tokens, .. } => Some((*loss, *tokens)),
        _ => None,
    };
    events.iter().filter_map(step).collect()
}

fn tokenizer() -> Tokenizer {
    let checkpoint = Checkpoint::open(&package().model_path("tiny-transformer")).unwrap();
    Tokenizer::from_gguf(checkpoint.gguf().unwrap()).unwrap()
}

const TWENTY_WORDS: &str = "the quick brown fox jumps over the lazy dog and then it sleeps under a tree until the sun is gone";

#[test]
fn a_text_shorter_than_the_sequence_trains_at_its_own_length() {
    let desk = Desk::new(TWENTY_WORDS);
    let (end, events) = desk.run(json!({ "seqLen": 512, "maxSteps": 2 }));
    end.unwrap();
    // BOS, the words, EOS.
    let tokens = tokenizer().encode(TWENTY_WORDS).unwrap().len() + 2;
    assert_eq!(
        steps(&events).iter().map(|step| step.1).collect::<Vec<_>>(),
        [tokens; 2]
    );
    let files = [
        "adapter_model.safetensors",
        "adapter_config.json",
        "adapter.gguf",
        "amv_train_config.json",
    ];
    for file in files {
        assert!(desk.path("out").join(file).exists(), "{file}");
    }
    assert!(desk.path("out.amv/metrics.jsonl").exists());
}

#[test]
fn small_contexts_and_batches_train() {
    let desk = Desk::new(&TWENTY_WORDS.repeat(20));
    for (seq_len, batch_size) in [(64, 1), (16, 4), (2, 3)] {
        let options =
            json!({ "seqLen": seq_len, "batchSize": batch_size, "maxSteps": 2, "overwrite": true });
        let (end, events) = desk.run(options);
        end.unwrap();
        assert_eq!(steps(&events)[0].1, seq_len * batch_size);
    }
}

#[test]
fn a_text_ends_with_the_end_token_once_and_it_is_trained() {
    use amv_train::data::{Document, Eos, samples};
    let tokenizer = tokenizer();
    let eos = tokenizer.eos().unwrap();
    let document = Document {
        text: "hello".to_owned(),
        place: "here".to_owned(),
    };
    let documents = vec![document; 10];
    for sample in samples(&documents, &tokenizer, 512, Eos::Append).unwrap() {
        let last = sample.targets.len() - 2;
        assert_eq!(sample.targets[last], eos);
        assert_eq!(sample.targets.iter().filter(|&&id| id == eos).count(), 1);
        assert_eq!(Some(sample.ids[0]), tokenizer.bos());
    }
    for sample in samples(&documents, &tokenizer, 512, Eos::Never).unwrap() {
        assert!(!sample.targets.contains(&eos));
    }
}

#[test]
fn a_model_taught_short_answers_learns_to_stop() {
    let lines = ["yes it is", "no it is not", "that is so", "it may be"];
    let line = |answer: &&str| json!({ "text": format!("Is it so? {answer}.") }).to_string();
    let desk = Desk::new(&lines.iter().map(line).collect::<Vec<_>>().join("\n"));
    let options =
        json!({ "data": desk.text("data.jsonl"), "lr": 0.01, "batchSize": 4, "epochs": 50 });
    desk.run(options).0.unwrap();

    let checkpoint = Checkpoint::open(&package().model_path("tiny-transformer")).unwrap();
    let tokenizer = tokenizer();
    let saved = adapter::read(&desk.path("out"), &adapter_base(&checkpoint).unwrap()).unwrap();
    let config = LoraConfig {
        rank: saved.rank,
        alpha: saved.alpha,
        dropout: 0.0,
        targets: saved.targets(),
        seed: 0,
    };
    let written = |adapter| {
        let loader = Loader::new(checkpoint.source(), adapter);
        let model = Decoder::load(checkpoint.config(), &loader).unwrap();
        let prompt = tokenizer.encode_document("Is it so?").unwrap();
        let sampler = Sampler {
            temperature: 0.0,
            top_k: 0,
            seed: 0,
        };
        let ends = [tokenizer.eos().unwrap()];
        generate(
            &model,
            &prompt,
            30,
            &ends,
            &sampler,
            &AtomicBool::new(false),
        )
        .unwrap()
    };
    assert_eq!(written(None).len(), 30, "the base goes on");
    let answer = written(Some(Adapter::continuing(config, saved.pairs)));
    assert!(answer.len() < 12, "{:?}", tokenizer.decode(&answer));
}

#[test]
fn an_existing_output_is_refused_before_any_work_and_stays() {
    let desk = Desk::new(TWENTY_WORDS);
    let options = json!({ "output": desk.text("a.safetensors"), "maxSteps": 1 });
    desk.run(options.clone()).0.unwrap();
    let before = std::fs::read(desk.path("a.safetensors")).unwrap();
    let (end, events) = desk.run(options);
    let error = end.unwrap_err();
    assert_eq!(error.code, Code::Usage);
    assert!(
        error.message.contains("a.safetensors exists already"),
        "{error}"
    );
    assert!(events.is_empty());
    assert_eq!(std::fs::read(desk.path("a.safetensors")).unwrap(), before);
}

#[test]
fn a_run_that_diverges_names_it_and_leaves_the_saved_adapter_alone() {
    let desk = Desk::new(TWENTY_WORDS);
    desk.run(json!({ "maxSteps": 1 })).0.unwrap();
    let file = desk.path("out/adapter_model.safetensors");
    let before = std::fs::read(&file).unwrap();
    let options = json!({ "lr": 1e38, "maxGradNorm": 0, "epochs": 20, "overwrite": true, "lrScheduler": "constant" });
    let (end, events) = desk.run(options);
    assert_eq!(end.unwrap_err().code, Code::NonFinite);
    let warned = |event: &&Event| {
        matches!(
            event,
            Event::Warning {
                code: "NON_FINITE",
                ..
            }
        )
    };
    assert_eq!(events.iter().filter(warned).count(), 3);
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn a_continued_adapter_starts_where_the_first_ended_and_keeps_its_rank() {
    let desk = Desk::new(&TWENTY_WORDS.repeat(4));
    let first =
        json!({ "rank": 4, "alpha": 4, "target": "q_proj,v_proj", "lr": 0.01, "epochs": 20 });
    let (_, events) = desk.run(first);
    let reached = steps(&events).last().unwrap().0;
    for init in ["out", "out/adapter.gguf"] {
        let options = json!({ "initAdapter": desk.text(init), "output": desk.text("more/"), "maxSteps": 1, "overwrite": true });
        let (end, events) = desk.run(options);
        end.unwrap();
        assert!(
            steps(&events)[0].0 < reached + 0.05,
            "{init}: {events:?} after {reached}"
        );
    }
    let config = std::fs::read_to_string(desk.path("more/adapter_config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!(
        (&config["r"], &config["target_modules"]),
        (&json!(4), &json!(["q_proj", "v_proj"]))
    );
    for contradiction in [
        json!({ "rank": 8 }),
        json!({ "alpha": 8 }),
        json!({ "target": "all-linear" }),
    ] {
        let mut options = json!({ "initAdapter": desk.text("out"), "output": desk.text("never/") });
        options
            .as_object_mut()
            .unwrap()
            .extend(contradiction.as_object().unwrap().clone());
        let error = desk.run(options).0.unwrap_err();
        assert_eq!(error.code, Code::Usage, "{contradiction}: {error}");
        assert!(!desk.path("never").exists());
    }
}

#[test]
fn what_cannot_run_is_refused_by_name_and_writes_nothing() {
    let desk = Desk::new(TWENTY_WORDS);
    let unknown = desk.path("mamba.gguf");
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", Value::String("mamba".into()));
    gguf::write(&unknown, &metadata, &[]).unwrap();
    std::fs::write(desk.path("page.gguf"), "<!DOCTYPE html>").unwrap();
    for (options, code, says) in [
        (
            json!({ "model": unknown.display().to_string() }),
            Code::UnsupportedModel,
            "mamba",
        ),
        (
            json!({ "model": desk.text("page.gguf") }),
            Code::BadModel,
            "page.gguf",
        ),
        (
            json!({ "model": desk.text("none.gguf") }),
            Code::NotFound,
            "none.gguf",
        ),
        (
            json!({ "data": desk.text("none.txt") }),
            Code::NotFound,
            "none.txt",
        ),
        (
            json!({ "backend": "vulkan" }),
            Code::BackendUnavailable,
            "vulkan",
        ),
        (
            json!({ "backend": "opencl" }),
            Code::BackendUnavailable,
            "opencl",
        ),
        (json!({ "target": "query" }), Code::Usage, "query"),
        (json!({ "target": "lm_head" }), Code::Usage, "lm_head"),
        (json!({ "rank": 100_000 }), Code::Usage, "100000"),
        (
            json!({ "output": desk.text("a.bin") }),
            Code::Usage,
            "a.bin",
        ),
        (
            json!({ "initAdapter": desk.text("none") }),
            Code::NotFound,
            "none",
        ),
        (json!({ "warmup": "fast" }), Code::Usage, "fast"),
        (json!({ "seqLen": 1 }), Code::Usage, "seq-len"),
    ] {
        let error = desk.run(options.clone()).0.unwrap_err();
        assert_eq!(error.code, code, "{options}: {error}");
        assert!(error.message.contains(says), "{options}: {error}");
    }
    assert!(!desk.path("out").exists() && !desk.path("out.amv").exists());
    let report = inspect(&unknown.display().to_string(), &package()).unwrap();
    assert_eq!(report["trainable"], json!(false));
    assert!(report["reason"].as_str().unwrap().contains("mamba"));
}

#[test]
fn the_same_seed_gives_the_same_adapter_and_two_runs_at_once_do_not_disturb_each_other() {
    let desk = Desk::new(&TWENTY_WORDS.repeat(8));
    let options = |output: &str| json!({ "output": desk.text(output), "seqLen": 32, "maxSteps": 4, "loraDropout": 0.2, "threads": 1 });
    std::thread::scope(|scope| {
        let one = scope.spawn(|| desk.run(options("one/")).0.unwrap());
        let two = scope.spawn(|| desk.run(options("two/")).0.unwrap());
        one.join().unwrap();
        two.join().unwrap();
    });
    let read =
        |name: &str| std::fs::read(desk.path(name).join("adapter_model.safetensors")).unwrap();
    assert_eq!(read("one"), read("two"));
}

#[test]
fn evaluation_measures_what_was_held_back() {
    let desk = Desk::new(&TWENTY_WORDS.repeat(20));
    let options =
        json!({ "seqLen": 32, "evalSplit": 0.2, "evalEvery": 3, "maxSteps": 6, "lr": 0.003 });
    let (end, events) = desk.run(options);
    end.unwrap();
    let evals: Vec<(usize, f64)> = events
        .iter()
        .filter_map(|event| match event {
            Event::Eval {
                step,
                loss,
                perplexity,
            } => {
                assert!((perplexity.ln() - loss).abs() < 1e-9);
                Some((*step, *loss))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        evals.iter().map(|eval| eval.0).collect::<Vec<_>>(),
        [0, 3, 6]
    );
    assert!(evals[2].1 < evals[0].1, "{evals:?}");
}

#[test]
fn a_run_stopped_before_its_first_step_writes_no_adapter() {
    let desk = Desk::new(TWENTY_WORDS);
    let options = json!({ "data": desk.text("data.txt"), "output": desk.text("out/") });
    let options: TrainOptions = serde_json::from_value(options).unwrap();
    let stopped = AtomicBool::new(true);
    let end = train(&options, &package(), &Heard::default(), &stopped).unwrap();
    assert!(
        matches!(&end, Event::End { steps: 0, files, .. } if files.is_empty()),
        "{end:?}"
    );
    assert!(!desk.path("out").exists());
}
