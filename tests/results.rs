//! What becomes of a trained adapter: texts, measurements, exports, merged models, and their verification.

#[path = "desk/mod.rs"]
mod desk;

use std::sync::atomic::AtomicBool;

use amv_train::error::{Code, Error};
use amv_train::format::Checkpoint;
use amv_train::format::adapter;
use amv_train::format::gguf::{self, GgufFile};
use amv_train::lora::Adapter;
use amv_train::models::{Decoder, adapter_base};
use amv_train::nn::Loader;
use amv_train::quant::{Format, Weight};
use amv_train::run::{
    EvaluateOptions, Evaluated, ExportOptions, GenerateOptions, Generated, MergeOptions, Merged,
    Reason, Verified, VerifyOptions, evaluate, export, generate, merge, verify,
};
use amv_train::tensor::{Ctx, Rows, Tensor};
use amv_train::train::Event;
use desk::{Desk, Heard, TWENTY_WORDS, package};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

type Work<O, R> = fn(
    &O,
    &amv_train::run::Package,
    &dyn amv_train::train::Listener,
    &AtomicBool,
) -> Result<R, Error>;

fn call<O: DeserializeOwned, R>(
    work: Work<O, R>,
    options: Value,
) -> (Result<R, Error>, Vec<Event>) {
    let options = serde_json::from_value(options).unwrap();
    let heard = Heard::default();
    let result = work(&options, &package(), &heard, &AtomicBool::new(false));
    (result, heard.0.into_inner().unwrap())
}

/// A desk with an adapter in `out/` that changes much.
fn trained(options: Value) -> Desk {
    let desk = Desk::new(TWENTY_WORDS);
    let mut all = json!({ "maxSteps": 6, "epochs": 6, "lr": 0.02 });
    all.as_object_mut()
        .unwrap()
        .extend(options.as_object().unwrap().clone());
    desk.run(all).0.unwrap();
    desk
}

fn merged(desk: &Desk, options: Value) -> (Result<Merged, Error>, Vec<Event>) {
    let mut all = json!({ "adapter": desk.text("out"), "output": desk.text("merged.gguf") });
    all.as_object_mut()
        .unwrap()
        .extend(options.as_object().unwrap().clone());
    call::<MergeOptions, _>(merge, all)
}

fn verified(desk: &Desk, exported: &str) -> Verified {
    let options = json!({ "adapter": desk.text("out"), "exported": desk.text(exported) });
    call::<VerifyOptions, _>(verify, options).0.unwrap()
}

fn warnings(events: &[Event]) -> Vec<(&'static str, String)> {
    let warning = |event: &Event| match event {
        Event::Warning { code, message } => Some((*code, message.clone())),
        _ => None,
    };
    events.iter().filter_map(warning).collect()
}

fn texts(desk: &Desk, options: Value) -> (Generated, String) {
    let mut all = json!({ "prompt": "the quick", "temperature": 0, "maxTokens": 24 });
    all.as_object_mut()
        .unwrap()
        .extend(options.as_object().unwrap().clone());
    if all.get("adapter").is_none() {
        all["adapter"] = desk.text("out").into();
    }
    let (result, events) = call::<GenerateOptions, _>(generate, all);
    let told = events.iter().filter_map(|event| match event {
        Event::Token { text } => Some(text.as_str()),
        _ => None,
    });
    (result.unwrap(), told.collect())
}

#[test]
fn a_text_through_the_cache_is_the_text_of_whole_passes() {
    let desk = trained(json!({}));
    let (cached, told) = texts(&desk, json!({}));
    assert_eq!(cached.text, told);
    assert_eq!((cached.tokens, cached.reason), (24, Reason::Length));

    let checkpoint = Checkpoint::open(&package().model_path("tiny-transformer")).unwrap();
    let saved = adapter::read(&desk.path("out"), &adapter_base(&checkpoint).unwrap()).unwrap();
    let adapter = Adapter::continuing(saved.config, saved.pairs);
    let loader = Loader::new(checkpoint.source(), Some(adapter));
    let model = Decoder::load(checkpoint.config(), &loader).unwrap();
    let tokenizer = amv_train::data::Tokenizer::from_gguf(checkpoint.gguf().unwrap()).unwrap();
    let mut ids = tokenizer.encode_document("the quick").unwrap();
    let prompt = ids.len();
    for _ in 0..24 {
        let ctx = Ctx::infer(Rows::of_samples(&[(0, ids.len())]).unwrap());
        let input = Tensor::of_u32(ids.clone(), [ids.len()]).unwrap();
        let logits = model.last_logits(&input, &ctx).unwrap();
        let logits = logits.values().unwrap();
        let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
        ids.push(best.unwrap() as u32);
    }
    let whole = tokenizer.decode(&ids).unwrap();
    let start = tokenizer.decode(&ids[..prompt]).unwrap();
    assert_eq!(format!("{start}{}", cached.text), whole);
}

#[test]
fn a_stop_string_ends_the_text_before_it_and_none_of_it_is_told() {
    let desk = trained(json!({}));
    let (whole, _) = texts(&desk, json!({}));
    let from = whole.text.char_indices().nth(10).unwrap().0;
    let stop: String = whole.text[from..].chars().take(5).collect();
    let (cut, told) = texts(&desk, json!({ "stop": [stop, "never written"] }));
    let at = whole.text.find(&stop).unwrap();
    assert_eq!(cut.text, whole.text[..at]);
    assert_eq!(told, cut.text);
    assert_eq!(cut.reason, Reason::StopString);
}

#[test]
fn an_evaluation_is_that_of_training_and_the_adapter_makes_it_better() {
    let desk = trained(json!({}));
    let options = json!({ "adapter": desk.text("out"), "data": desk.text("data.txt") });
    let measured: Evaluated = call::<EvaluateOptions, _>(evaluate, options).0.unwrap();
    let adapter = measured.adapter.unwrap();
    assert!(adapter.loss < measured.base.loss - 0.2, "{measured:?}");
    assert_eq!(adapter.perplexity, adapter.loss.exp());
    // The evaluation before the first step of a run is of the base alone.
    let options = json!({ "output": desk.text("b/"), "maxSteps": 1, "precision": "f32", "evalData": desk.text("data.txt") });
    let (_, events) = desk.run(options);
    let first = events.iter().find_map(|event| match event {
        Event::Eval { step: 0, loss, .. } => Some(*loss),
        _ => None,
    });
    assert_eq!(first, Some(measured.base.loss));
}

#[test]
fn a_merged_model_computes_what_the_adapter_did_in_every_type() {
    let desk = trained(json!({}));
    for (kind, most) in [
        ("f32", 1e-9),
        ("f16", 1e-5),
        ("bf16", 1e-3),
        ("q8_0", 1e-3),
        ("q4_0", 0.5),
        ("own", 0.5),
    ] {
        let file = format!("{kind}.gguf");
        let (result, _) = merged(&desk, json!({ "type": kind, "output": desk.text(&file) }));
        assert!(result.unwrap().layers > 0);
        let verdict = verified(&desk, &file);
        let kl = verdict
            .prompts
            .iter()
            .map(|prompt| prompt.kl)
            .fold(0.0, f64::max);
        assert!(verdict.passed && kl < most, "{kind}: {verdict:?}");
    }
    let base = verified_against_base(&desk);
    assert!(!base.passed, "the base is not the adapter: {base:?}");
}

/// Verifies the base itself as if it were the export.
fn verified_against_base(desk: &Desk) -> Verified {
    std::fs::copy(
        package().model_path("tiny-transformer"),
        desk.path("base.gguf"),
    )
    .unwrap();
    verified(desk, "base.gguf")
}

#[test]
fn metadata_and_untouched_tensors_of_a_merged_file_are_those_of_the_base() {
    let desk = trained(json!({ "target": ["q_proj"] }));
    let (result, _) = merged(&desk, json!({}));
    result.unwrap();
    let base = GgufFile::open(&package().model_path("tiny-transformer")).unwrap();
    let file = GgufFile::open(&desk.path("merged.gguf")).unwrap();
    assert_eq!(file.metadata(), base.metadata());
    assert!(base.tensor_names().eq(file.tensor_names()));
    for name in base.tensor_names() {
        let same = base.weight(name).unwrap().bytes().as_u8()
            == file.weight(name).unwrap().bytes().as_u8();
        assert_eq!(same, !name.contains("attn_q"), "{name}");
    }
}

#[test]
fn dora_is_merged_and_its_export_to_llama_cpp_is_refused_with_that_offer() {
    let desk = trained(json!({ "dora": true }));
    let (result, _) = merged(&desk, json!({ "type": "f32" }));
    result.unwrap();
    assert!(verified(&desk, "merged.gguf").passed);
    let options = json!({ "adapter": desk.text("out"), "output": desk.text("dora.gguf") });
    let error = call::<ExportOptions, _>(export, options).0.err().unwrap();
    assert_eq!(error.code, Code::UnsupportedFormat);
    assert!(error.hint.unwrap().contains("amv-train merge"));
    assert!(!desk.path("dora.gguf").exists());
}

#[test]
fn an_adapter_goes_from_format_to_format_and_computes_the_same() {
    let desk = trained(json!({}));
    let mut from = "out".to_owned();
    for to in ["a.gguf", "b/", "c.safetensors"] {
        let options = json!({ "adapter": desk.text(&from), "output": desk.text(to) });
        let (result, _) = call::<ExportOptions, _>(export, options);
        assert!(result.unwrap().layers > 0);
        assert!(verified(&desk, to).passed, "{from} to {to}");
        from = to.to_owned();
    }
    let options = json!({ "adapter": desk.text("out"), "output": desk.text("a.gguf") });
    let error = call::<ExportOptions, _>(export, options).0.err().unwrap();
    assert!(error.message.ends_with("exists already"), "{error}");
}

#[test]
fn a_changed_file_fails_the_verification_by_name() {
    let desk = trained(json!({}));
    let config = desk.path("out/adapter_config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text} ")).unwrap();
    let verdict = verified(&desk, "out");
    assert!(!verdict.passed);
    assert_eq!(verdict.changed_files, [config.display().to_string()]);
}

/// The built-in model with other values in its final norm.
fn other_base(desk: &Desk, factor: f32) -> String {
    let base = GgufFile::open(&package().model_path("tiny-transformer")).unwrap();
    let tensors: Vec<(String, Weight)> = base
        .tensor_names()
        .map(|name| {
            let weight = base.weight(name).unwrap();
            if name != "output_norm.weight" {
                return (name.to_owned(), weight);
            }
            let values = weight
                .to_f32()
                .unwrap()
                .iter()
                .map(|x| x * factor)
                .collect();
            let bytes = amv_train::backend::Bytes::from_f32(values);
            let weight = Weight::new(Format::F32, weight.shape().clone(), bytes).unwrap();
            (name.to_owned(), weight)
        })
        .collect();
    let path = desk.path("other.gguf");
    gguf::write(&path, base.metadata(), &tensors).unwrap();
    desk.text("other.gguf")
}

#[test]
fn an_adapter_on_another_base_warns_with_both_hashes() {
    let desk = trained(json!({}));
    let other = other_base(&desk, 1.5);
    let hashes = [
        package().model_path("tiny-transformer"),
        other.clone().into(),
    ]
    .map(|path| Checkpoint::open(&path).unwrap().sha256().unwrap());
    let adapter = desk.text("out");
    let generated = call::<GenerateOptions, _>(
        generate,
        json!({ "model": other, "adapter": adapter, "prompt": "a", "maxTokens": 1 }),
    );
    let evaluated = call::<EvaluateOptions, _>(
        evaluate,
        json!({ "model": other, "adapter": adapter, "data": desk.text("data.txt") }),
    );
    let exported = call::<ExportOptions, _>(
        export,
        json!({ "model": other, "adapter": adapter, "output": desk.text("e.gguf") }),
    );
    let merged = merged(&desk, json!({ "model": other }));
    for events in [generated.1, evaluated.1, exported.1, merged.1] {
        let warnings = warnings(&events);
        let (_, message) = warnings
            .iter()
            .find(|(code, _)| *code == "OTHER_BASE")
            .unwrap();
        assert!(
            hashes.iter().all(|hash| message.contains(hash)),
            "{message}"
        );
    }
}

#[test]
fn what_cannot_be_merged_is_refused_and_nothing_is_written() {
    let desk = trained(json!({}));
    let refused = |options: Value| merged(&desk, options).0.err().unwrap();
    let directory = refused(json!({ "output": desk.text("merged/") }));
    assert_eq!(directory.code, Code::UnsupportedFormat);
    // A weight above 65504 in an f16 file is an error, not an infinity.
    let other = other_base(&desk, 1e6);
    let large = refused(json!({ "model": other, "type": "f16" }));
    assert_eq!(large.code, Code::NonFinite);
    assert!(large.message.contains("output_norm.weight"), "{large}");
    let base = refused(json!({ "model": other, "output": other, "overwrite": true }));
    assert!(base.message.contains("never changed"), "{base}");
    assert!(!desk.path("merged.gguf").exists());
    let left = std::fs::read_dir(desk.path(".")).unwrap();
    assert!(
        left.flatten()
            .all(|entry| !entry.file_name().to_string_lossy().ends_with(".tmp"))
    );
}

#[test]
fn a_chat_is_answered_as_it_was_learned_and_ends_with_its_turn() {
    let chat = json!({ "messages": [
        { "role": "user", "content": "Which colour is the sky?" },
        { "role": "assistant", "content": "It is green." },
    ] });
    let desk = Desk::new(&chat.to_string());
    let run = json!({ "data": desk.text("data.jsonl"), "epochs": 40, "lr": 0.005 });
    desk.run(run).0.unwrap();
    let ask = |more: Value| {
        let mut all = json!({
            "adapter": desk.text("out"), "prompt": "Which colour is the sky?", "temperature": 0
        });
        let more = more.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(more);
        call::<GenerateOptions, _>(generate, all).0
    };
    let answer: Generated = ask(json!({ "chat": true, "maxTokens": 32 })).unwrap();
    assert_eq!(answer.text.trim(), "It is green.");
    assert_eq!(answer.reason, Reason::End);
    let error = ask(json!({ "system": "Be brief." })).unwrap_err();
    assert_eq!(error.code, Code::Usage);
    assert!(error.message.contains("--chat"), "{}", error.message);
}

/// Stops the work with the first event of this kind.
struct StopAt<'a>(&'static str, &'a AtomicBool);

impl amv_train::train::Listener for StopAt<'_> {
    fn event(&self, event: &Event) {
        if json!(event)["type"] == self.0 {
            self.1.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

#[test]
fn an_export_or_a_verification_that_is_stopped_says_so_and_leaves_nothing() {
    // DoRA, so that the export has something to tell before it writes.
    let desk = trained(json!({ "dora": true }));
    let adapter = desk.text("out");
    for output in ["stopped/", "stopped.safetensors"] {
        let stop = AtomicBool::new(false);
        let options = json!({ "adapter": adapter, "output": desk.text(output) });
        let options: ExportOptions = serde_json::from_value(options).unwrap();
        let error = export(&options, &package(), &StopAt("warning", &stop), &stop).unwrap_err();
        assert_eq!(error.code, Code::Aborted, "{error}");
        let left: Vec<_> = std::fs::read_dir(desk.path(".")).unwrap().collect();
        let names = left.into_iter().map(|entry| entry.unwrap().file_name());
        let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        assert!(
            names
                .iter()
                .all(|name| !name.contains("stopped") && !name.ends_with(".tmp")),
            "{names:?}"
        );
    }
    let stop = AtomicBool::new(false);
    let options = json!({ "adapter": adapter, "exported": adapter });
    let options: VerifyOptions = serde_json::from_value(options).unwrap();
    let error = verify(&options, &package(), &StopAt("progress", &stop), &stop).unwrap_err();
    assert_eq!(error.code, Code::Aborted, "{error}");
}
