//! Whole runs on the built-in model, from options to files: what users of such trainers ran into.

mod desk;
mod texts;

use std::sync::atomic::AtomicBool;

use amv_train::data::Tokenizer;
use amv_train::error::Code;
use amv_train::format::{Checkpoint, adapter};
use amv_train::generate::{Sampler, generate};
use amv_train::lora::Adapter;
use amv_train::models::{Decoder, adapter_base};
use amv_train::nn::Loader;
use amv_train::run::train;
use amv_train::train::{Event, TrainOptions};
use desk::{Desk, Heard, TWENTY_WORDS, package, steps};
use serde_json::json;
use texts::text_samples;

fn tokenizer() -> Tokenizer {
    let checkpoint = Checkpoint::open(&package().model_path("tiny-transformer")).unwrap();
    Tokenizer::from_gguf(checkpoint.gguf().unwrap()).unwrap()
}

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
    use amv_train::data::Eos;
    let tokenizer = tokenizer();
    let eos = tokenizer.eos().unwrap();
    for sample in text_samples("hello", &tokenizer, 512, Eos::Append) {
        let last = sample.targets.len() - 2;
        assert_eq!(sample.targets[last], eos);
        assert_eq!(sample.targets.iter().filter(|&&id| id == eos).count(), 1);
        assert_eq!(Some(sample.ids[0]), tokenizer.bos());
    }
    for sample in text_samples("hello", &tokenizer, 512, Eos::Never) {
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
    let written = |adapter| {
        let loader = Loader::new(checkpoint.source(), adapter);
        let model = Decoder::load(checkpoint.config(), &loader).unwrap();
        let prompt = tokenizer.encode_document("Is it so?").unwrap();
        let sampler = Sampler::default();
        let ends = [tokenizer.eos().unwrap()];
        generate(&model, &prompt, 30, &ends, &sampler, &mut |_| {
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap()
    };
    assert_eq!(written(None).len(), 30, "the base goes on");
    let answer = written(Some(Adapter::continuing(saved.config, saved.pairs)));
    assert!(answer.len() < 12, "{:?}", tokenizer.decode(&answer));
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
fn a_continued_dora_trains_as_many_values_and_leaves_the_same_names() {
    let desk = Desk::new(TWENTY_WORDS);
    let kind = json!({ "dora": true, "rslora": true, "rank": 4, "rankPattern": { "v_proj": 2 }, "layers": "last:2", "maxSteps": 2 });
    let (end, first) = desk.run(kind);
    end.unwrap();
    let more = json!({ "initAdapter": desk.text("out"), "output": desk.text("more/"), "maxSteps": 1, "dora": true, "layers": [6, 7] });
    let (end, second) = desk.run(more);
    end.unwrap();
    let trained = |events: &[Event]| {
        let count = events.iter().find_map(|event| match event {
            Event::Start {
                trainable_parameters,
                ..
            } => Some(*trainable_parameters),
            _ => None,
        });
        count.unwrap()
    };
    assert_eq!(trained(&first), trained(&second));
    let names = |directory: &str| -> Vec<String> {
        let file = desk.path(directory).join("adapter_model.safetensors");
        let tensors = amv_train::format::safetensors::Safetensors::open(&file).unwrap();
        tensors.tensor_names().map(str::to_owned).collect()
    };
    assert_eq!(names("out"), names("more"));
    let config = |directory: &str| {
        std::fs::read_to_string(desk.path(directory).join("adapter_config.json")).unwrap()
    };
    assert_eq!(config("out"), config("more"));
    for (contradiction, name) in [
        (json!({ "dora": false }), "dora"),
        (json!({ "rslora": false }), "rslora"),
        (json!({ "layers": "0-1" }), "layers"),
        (json!({ "rankPattern": { "q_proj": 2 } }), "rank-pattern"),
        (json!({ "alphaPattern": { "q_proj": 2 } }), "alpha-pattern"),
    ] {
        let mut options = json!({ "initAdapter": desk.text("out"), "output": desk.text("never/") });
        let given = contradiction.as_object().unwrap().clone();
        options.as_object_mut().unwrap().extend(given);
        let error = desk.run(options).0.unwrap_err();
        let says = format!("--{name} contradicts the adapter");
        assert!(error.message.contains(&says), "{contradiction}: {error}");
    }
}

/// ggml-org/llama.cpp#6536: its loader does not know magnitudes.
#[test]
fn a_dora_run_says_that_llama_cpp_cannot_load_it_and_leaves_no_old_gguf() {
    let desk = Desk::new(TWENTY_WORDS);
    desk.run(json!({ "maxSteps": 1 })).0.unwrap();
    assert!(desk.path("out/adapter.gguf").exists());
    let (end, events) = desk.run(json!({ "dora": true, "maxSteps": 1, "overwrite": true }));
    let Event::End { files, .. } = end.unwrap() else {
        panic!("the last event is the end");
    };
    assert!(!desk.path("out/adapter.gguf").exists());
    assert!(files.iter().all(|file| !file.ends_with(".gguf")));
    let warned = events.iter().any(|event| {
        matches!(event, Event::Warning { code: "NO_GGUF", message } if message.contains("merge"))
    });
    assert!(warned);
}

#[test]
fn the_log_has_the_warnings_from_before_the_start() {
    let desk = Desk::new("{\"text\": \"one two three\"}\n{\"text\": \" \"}\n");
    let options = json!({
        "data": desk.text("data.jsonl"), "log": desk.text("log.jsonl"), "maxSteps": 1
    });
    let (end, events) = desk.run(options);
    end.unwrap();
    let heard: String = events
        .iter()
        .map(|event| serde_json::to_string(event).unwrap() + "\n")
        .collect();
    assert!(heard.contains("SKIPPED"));
    for log in ["log.jsonl", "out.amv/metrics.jsonl"] {
        let log = std::fs::read_to_string(desk.path(log)).unwrap();
        assert_eq!(log, heard);
    }
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
