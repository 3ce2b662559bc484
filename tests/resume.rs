//! Runs that go on: what an interrupted run leaves, what may change before it is resumed, and what may not.

mod desk;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use amv_train::error::{Code, Error};
use amv_train::run::train;
use amv_train::train::{Event, Listener, Status, TrainOptions};
use desk::{Desk, Heard, TWENTY_WORDS, package, steps};
use serde_json::{Value, json};

/// Everything that decides what is learned is on: shuffle, dropout, warm-up, decay, accumulation.
fn options(output: &str, more: Value) -> Value {
    let mut options = json!({
        // By its path, the built-in model writes no texts before and after.
        "model": package().model_path("tiny-transformer"),
        "output": output, "seqLen": 16, "maxSteps": 20, "epochs": 9, "lr": 0.01, "rank": 4, "loraDropout": 0.1,
        "weightDecay": 0.01, "gradAccum": 2, "warmup": 4, "saveEvery": 5, "threads": 1
    });
    let more = more.as_object().unwrap().clone();
    options.as_object_mut().unwrap().extend(more);
    options
}

fn desk() -> Desk {
    Desk::new(&TWENTY_WORDS.repeat(6))
}

/// Stops the run after a step.
struct StopAfter<'a> {
    step: usize,
    stop: &'a AtomicBool,
    heard: Heard,
}

impl Listener for StopAfter<'_> {
    fn event(&self, event: &Event) {
        if matches!(event, Event::Step { step, .. } if *step == self.step) {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.heard.event(event);
    }
}

/// Runs and stops after `step`.
fn run_until(desk: &Desk, step: usize, options: Value) -> Event {
    let mut all = json!({ "data": desk.text("data.txt") });
    let given = options.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(given);
    let options: TrainOptions = serde_json::from_value(all).unwrap();
    let stop = AtomicBool::new(false);
    let listener = StopAfter {
        step,
        stop: &stop,
        heard: Heard::default(),
    };
    train(&options, &package(), &listener, &stop).unwrap()
}

fn files(output: &Path) -> Vec<Vec<u8>> {
    let names = [
        "adapter_model.safetensors",
        "adapter_config.json",
        "adapter.gguf",
        "amv_train_config.json",
    ];
    // A DoRA has no GGUF file.
    let present = names.iter().filter(|name| output.join(name).exists());
    let files = present.map(|name| std::fs::read(output.join(name)).unwrap());
    files.collect()
}

/// The values of `key` in the events of a file that have one, by type of event.
fn numbers(file: &Path, kind: &str, key: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["type"] == kind)
        .map(|event| event[key].clone())
        .collect()
}

fn warnings(events: &[Event]) -> Vec<&'static str> {
    let code = |event: &Event| match event {
        Event::Warning { code, .. } => Some(*code),
        _ => None,
    };
    events.iter().filter_map(code).collect()
}

fn start(events: &[Event]) -> (usize, Option<usize>) {
    let start = events.iter().find_map(|event| match event {
        Event::Start {
            trainable_parameters,
            resumed_step,
            ..
        } => Some((*trainable_parameters, *resumed_step)),
        _ => None,
    });
    start.unwrap()
}

fn checkpoints(desk: &Desk, output: &str) -> Vec<String> {
    let entries = std::fs::read_dir(desk.path(&format!("{output}.amv/checkpoints"))).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn refused(desk: &Desk, options: Value) -> Error {
    desk.run(options).0.unwrap_err()
}

#[test]
fn a_stopped_run_that_is_resumed_equals_an_unbroken_one_bit_for_bit() {
    let desk = desk();
    // Everything but the place is the same, also where the place is written.
    let (end, unbroken) = desk.run(options(&desk.text("out/"), json!({})));
    let Event::End { final_loss, .. } = end.unwrap() else {
        panic!("a run ends with its end");
    };
    let expected = files(&desk.path("out"));
    let losses = numbers(&desk.path("out.amv/metrics.jsonl"), "step", "loss");
    let again = json!({ "overwrite": true });
    let end = run_until(&desk, 10, options(&desk.text("out/"), again));
    assert!(matches!(
        end,
        Event::End {
            status: Status::Stopped,
            steps: 10,
            ..
        }
    ));
    assert_ne!(files(&desk.path("out")), expected);

    let (end, events) = desk.run(options(&desk.text("out/"), json!({ "resume": "auto" })));
    let Event::End {
        final_loss: resumed_loss,
        steps: 20,
        ..
    } = end.unwrap()
    else {
        panic!("twenty steps in all");
    };
    assert_eq!(resumed_loss.to_bits(), final_loss.to_bits());
    assert_eq!(files(&desk.path("out")), expected);
    // The trainable parameters are the same ones, steps go on counting, and no step is told twice.
    assert_eq!(start(&events), (start(&unbroken).0, Some(10)));
    let metrics = desk.path("out.amv/metrics.jsonl");
    let all: Vec<Value> = (1..=20).map(Value::from).collect();
    assert_eq!(numbers(&metrics, "step", "step"), all);
    assert_eq!(numbers(&metrics, "step", "loss"), losses);
    assert_eq!(numbers(&metrics, "end", "steps"), [20]);
    assert_eq!(
        numbers(&metrics, "start", "resumedStep"),
        [Value::Null, json!(10)]
    );
    assert_eq!(checkpoints(&desk, "out"), ["step-000015", "step-000020"]);
}

#[test]
fn a_resumed_dora_keeps_its_lengths_and_their_moments() {
    let desk = desk();
    let kind = |more: Value| {
        let mut kind = json!({
            "dora": true, "rslora": true, "rankPattern": { "q_proj": 2 }, "alphaPattern": { "v_proj": 3 }, "layers": "last:2",
            "maxSteps": 4, "saveEvery": 0
        });
        let more = more.as_object().unwrap().clone();
        kind.as_object_mut().unwrap().extend(more);
        options(&desk.text("out/"), kind)
    };
    desk.run(kind(json!({}))).0.unwrap();
    let expected = files(&desk.path("out"));
    run_until(&desk, 2, kind(json!({ "overwrite": true })));
    assert_ne!(files(&desk.path("out")), expected);
    let other = kind(json!({ "resume": "auto", "rankPattern": { "q_proj": 3 } }));
    assert!(refused(&desk, other).message.contains("--rank-pattern"));
    // The same layers in other words.
    let same = kind(json!({ "resume": "auto", "layers": [6, 7] }));
    desk.run(same).0.unwrap();
    assert_eq!(files(&desk.path("out")), expected);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let desk = Desk::new(&TWENTY_WORDS.repeat(40));
    let with = |output: &str, threads: usize| {
        let more = json!({ "threads": threads, "seqLen": 256, "maxSteps": 3 });
        desk.run(options(&desk.text(output), more)).0.unwrap();
        std::fs::read(desk.path(output).join("adapter_model.safetensors")).unwrap()
    };
    let one = with("one/", 1);
    assert!(with("two/", 2) == one && with("three/", 3) == one);
}

#[test]
fn what_decides_the_result_must_be_the_same_and_the_difference_is_named() {
    let desk = desk();
    run_until(&desk, 6, options(&desk.text("out/"), json!({})));
    let before = files(&desk.path("out"));
    std::fs::write(desk.path("other.txt"), TWENTY_WORDS.repeat(7)).unwrap();
    for (change, named) in [
        (json!({ "lr": 0.02 }), "--lr: 0.01 -> 0.02"),
        (json!({ "loraDropout": 0 }), "--lora-dropout: 0.1 -> 0.0"),
        (json!({ "seed": 1 }), "--seed: 0 -> 1"),
        (json!({ "noShuffle": true }), "--no-shuffle: false -> true"),
        (
            json!({ "gradAccum": 1, "batchSize": 2 }),
            "--batch-size: 1 -> 2; --grad-accum: 2 -> 1",
        ),
        (json!({ "warmup": 5 }), "--warmup: 4 -> 5"),
        (json!({ "rank": 8 }), "--rank: 4 -> 8"),
        (json!({ "target": "q_proj" }), "trainable parameters: "),
        (json!({ "seqLen": 17 }), "data: "),
        (json!({ "evalSplit": 0.2 }), "--eval-split: 0.0 -> 0.2"),
        (json!({ "data": desk.text("other.txt") }), "data: "),
    ] {
        let mut all = options(&desk.text("out/"), json!({ "resume": "auto" }));
        let change = change.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(change);
        let error = refused(&desk, all);
        assert_eq!(error.code, Code::Usage);
        assert!(error.message.contains(named), "{named}: {error}");
        assert!(error.hint.unwrap().contains("--overwrite"));
    }
    assert_eq!(files(&desk.path("out")), before);
    assert_eq!(checkpoints(&desk, "out"), ["step-000005", "step-000006"]);
}

#[test]
fn another_base_is_refused_by_its_hash() {
    let desk = desk();
    let model = package().model_path("tiny-transformer");
    let copy = desk.path("copy.gguf");
    std::fs::copy(&model, &copy).unwrap();
    run_until(
        &desk,
        2,
        options(&desk.text("out/"), json!({ "model": copy, "maxSteps": 4 })),
    );
    let resumed = |model: &Path| {
        let more = json!({ "model": model, "maxSteps": 4, "resume": "auto" });
        desk.run(options(&desk.text("out/"), more)).0
    };
    let mut content = std::fs::read(&copy).unwrap();
    *content.last_mut().unwrap() ^= 1;
    let changed = desk.path("changed.gguf");
    std::fs::write(&changed, content).unwrap();
    let error = resumed(&changed).unwrap_err();
    assert!(error.message.contains("base model: SHA-256 "), "{error}");
    // The same file elsewhere is the same base.
    resumed(&model).unwrap();
}

#[test]
fn where_things_are_and_what_is_shown_may_change() {
    let desk = desk();
    desk.run(options(&desk.text("out/"), json!({}))).0.unwrap();
    let expected = std::fs::read(desk.path("out/adapter_model.safetensors")).unwrap();
    run_until(&desk, 7, options(&desk.text("two/"), json!({})));
    std::fs::rename(desk.path("data.txt"), desk.path("moved.txt")).unwrap();
    let more = json!({
        "data": desk.text("moved.txt"), "resume": desk.text("two.amv"), "log": desk.text("log.jsonl"),
        "threads": 2, "saveEvery": "1m", "keep": 5, "sampleEvery": 6
    });
    desk.run(options(&desk.text("three/"), more)).0.unwrap();
    let resumed = std::fs::read(desk.path("three/adapter_model.safetensors")).unwrap();
    assert!(resumed == expected);
    // The run it came from is left as it was.
    assert_eq!(checkpoints(&desk, "two"), ["step-000005", "step-000007"]);
}

#[test]
fn auto_without_a_checkpoint_starts_anew_and_says_so() {
    let desk = desk();
    let fresh = options(
        &desk.text("out/"),
        json!({ "resume": "auto", "maxSteps": 2 }),
    );
    let (end, events) = desk.run(fresh.clone());
    end.unwrap();
    assert_eq!(warnings(&events), ["NO_CHECKPOINT"]);
    assert_eq!(start(&events).1, None);
    // An adapter that no checkpoint belongs to is not replaced.
    std::fs::remove_dir_all(desk.path("out.amv/checkpoints")).unwrap();
    let error = refused(&desk, fresh);
    assert!(error.message.ends_with("exists already"), "{error}");
}

#[test]
fn a_run_resumed_after_its_end_says_so_and_changes_nothing() {
    let desk = desk();
    desk.run(options(&desk.text("out/"), json!({}))).0.unwrap();
    let (before, saved) = (files(&desk.path("out")), checkpoints(&desk, "out"));
    let (end, events) = desk.run(options(&desk.text("out/"), json!({ "resume": "auto" })));
    assert!(matches!(
        end.unwrap(),
        Event::End {
            status: Status::Completed,
            steps: 20,
            ..
        }
    ));
    assert_eq!(warnings(&events), ["ALREADY_COMPLETE"]);
    assert!(steps(&events).is_empty());
    assert_eq!(
        (files(&desk.path("out")), checkpoints(&desk, "out")),
        (before, saved)
    );
    // Killed before its adapter was written, it writes it now.
    std::fs::remove_dir_all(desk.path("out")).unwrap();
    desk.run(options(&desk.text("out/"), json!({ "resume": "auto" })))
        .0
        .unwrap();
    assert!(desk.path("out/adapter.gguf").exists());
    let short = options(
        &desk.text("out/"),
        json!({ "resume": "auto", "maxSteps": 3 }),
    );
    let error = refused(&desk, short);
    assert!(
        error.message.ends_with("is past the 3 steps of this run"),
        "{error}"
    );
}

#[test]
fn a_run_may_be_made_longer() {
    let desk = desk();
    let constant = |output: &str, more: Value| {
        let mut all = options(&desk.text(output), json!({ "lrScheduler": "constant" }));
        let more = more.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(more);
        desk.run(all)
    };
    constant("whole/", json!({})).0.unwrap();
    constant("out/", json!({ "maxSteps": 8 })).0.unwrap();
    let (end, events) = constant("out/", json!({ "resume": "auto" }));
    end.unwrap();
    // A constant rate does not depend on the length, so the result is that of a run that had it from the start.
    assert!(warnings(&events).is_empty());
    let read = |name: &str| std::fs::read(desk.path(name).join("adapter.gguf")).unwrap();
    assert!(read("out") == read("whole"));

    desk.run(options(&desk.text("falling/"), json!({ "maxSteps": 8 })))
        .0
        .unwrap();
    let (end, events) = desk.run(options(&desk.text("falling/"), json!({ "resume": "auto" })));
    end.unwrap();
    assert_eq!(warnings(&events), ["NEW_LENGTH"]);
}

#[test]
fn an_interrupted_run_is_not_replaced_without_a_word() {
    let desk = desk();
    let plain = options(&desk.text("out/"), json!({ "maxSteps": 6 }));
    run_until(&desk, 3, plain.clone());
    let hint = refused(&desk, plain.clone()).hint.unwrap();
    assert!(
        hint.contains("--resume auto") && hint.contains("--overwrite"),
        "{hint}"
    );
    std::fs::remove_dir_all(desk.path("out")).unwrap();
    let error = refused(&desk, plain.clone());
    assert!(
        error.message.ends_with("interrupted after step 3"),
        "{error}"
    );
    // Whoever overwrites begins anew, and no checkpoint of the older run is left to resume from by mistake.
    let mut anew = plain;
    anew["overwrite"] = true.into();
    anew["maxSteps"] = 2.into();
    let (end, events) = desk.run(anew);
    end.unwrap();
    assert_eq!(start(&events).1, None);
    assert_eq!(checkpoints(&desk, "out"), ["step-000002"]);
}

#[test]
fn a_damaged_newest_checkpoint_is_passed_over_with_a_warning() {
    let desk = desk();
    desk.run(options(&desk.text("out/"), json!({}))).0.unwrap();
    let expected = files(&desk.path("out"));
    let newest = desk.path("out.amv/checkpoints/step-000020/state.safetensors");
    let content = std::fs::read(&newest).unwrap();
    std::fs::write(&newest, &content[..content.len() / 2]).unwrap();
    let (end, events) = desk.run(options(&desk.text("out/"), json!({ "resume": "auto" })));
    end.unwrap();
    assert_eq!(warnings(&events), ["BAD_CHECKPOINT"]);
    assert_eq!(start(&events).1, Some(15));
    assert_eq!(files(&desk.path("out")), expected);
    // One that is named must be whole.
    std::fs::write(&newest, b"").unwrap();
    let named = desk.text("out.amv/checkpoints/step-000020");
    let error = refused(
        &desk,
        options(&desk.text("out/"), json!({ "resume": named })),
    );
    assert!(error.message.contains("step-000020 is damaged"), "{error}");
    let nowhere = options(
        &desk.text("new/"),
        json!({ "resume": desk.text("nowhere") }),
    );
    assert_eq!(refused(&desk, nowhere).code, Code::NotFound);
}

#[test]
fn an_earlier_checkpoint_can_be_gone_back_to() {
    let desk = desk();
    desk.run(options(&desk.text("out/"), json!({ "keep": 4 })))
        .0
        .unwrap();
    let expected = files(&desk.path("out"));
    let back = json!({ "keep": 4, "resume": desk.text("out.amv/checkpoints/step-000010") });
    let (end, events) = desk.run(options(&desk.text("out/"), back));
    end.unwrap();
    assert_eq!(start(&events).1, Some(10));
    assert_eq!(files(&desk.path("out")), expected);
    let all: Vec<Value> = (1..=20).map(Value::from).collect();
    assert_eq!(
        numbers(&desk.path("out.amv/metrics.jsonl"), "step", "step"),
        all
    );
}

#[test]
fn the_best_evaluation_is_kept_and_exported() {
    let desk = desk();
    // Of another text the model knows less and less.
    let other = desk.path("eval.txt");
    std::fs::write(
        &other,
        "A lamp on the pier was out. Nobody knew who should have lit it that night.",
    )
    .unwrap();
    let more =
        json!({ "evalData": other, "evalEvery": 2, "lr": 0.02, "saveBest": true, "keep": 1 });
    let (end, events) = desk.run(options(&desk.text("out/"), more.clone()));
    end.unwrap();
    let evals = events.iter().filter_map(|event| match event {
        Event::Eval { step, loss, .. } if *step > 0 => Some((*step, *loss)),
        _ => None,
    });
    let best = evals.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    assert!(best.0 < 20, "the test needs a run that gets worse");
    let name = format!("step-{:06}", best.0);
    assert_eq!(checkpoints(&desk, "out"), [name.as_str(), "step-000020"]);
    let sidecar = std::fs::read(desk.path("out/amv_train_config.json")).unwrap();
    let sidecar: Value = serde_json::from_slice(&sidecar).unwrap();
    assert_eq!(sidecar["result"]["best_step"], best.0);
    assert_eq!(sidecar["result"]["best_eval_loss"], best.1);
    // The exported adapter has that loss: a run that starts from it measures it at once.
    let check = json!({
        "output": desk.text("check/"), "initAdapter": desk.text("out"), "seqLen": 16, "maxSteps": 1, "evalData": other
    });
    let (_, events) = desk.run(check);
    let measured = events.iter().find_map(|event| match event {
        Event::Eval { step: 0, loss, .. } => Some(*loss),
        _ => None,
    });
    assert!((measured.unwrap() - best.1).abs() < 1e-6 * best.1);
    // Resumed in the middle it comes to the same.
    let expected = files(&desk.path("out"));
    let mut again = options(&desk.text("out/"), more);
    again["overwrite"] = true.into();
    run_until(&desk, best.0 + 1, again.clone());
    again["overwrite"] = false.into();
    again["resume"] = "auto".into();
    desk.run(again).0.unwrap();
    assert_eq!(files(&desk.path("out")), expected);
    let without = refused(
        &desk,
        json!({ "output": desk.text("x/"), "saveBest": true }),
    );
    assert!(without.hint.unwrap().contains("--eval-split"));
}
