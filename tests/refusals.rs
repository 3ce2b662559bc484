//! What a run refuses, by name and before any work.

mod desk;

use amv_train::error::Code;
use amv_train::format::gguf::{self, Metadata, Value};
use amv_train::run::inspect;
use desk::{Desk, TWENTY_WORDS, package, steps};
use serde_json::json;

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
        (
            json!({ "target": "qproj" }),
            Code::Usage,
            "did you mean q_proj?",
        ),
        (json!({ "target": "q_proj(" }), Code::Usage, "q_proj("),
        (
            json!({ "target": "embed_tokens" }),
            Code::Usage,
            "its embedding table",
        ),
        (
            json!({ "alphaPattern": { "q_proj": -1 } }),
            Code::Usage,
            "alpha-pattern: q_proj is -1; it must be a number above 0",
        ),
        (json!({ "target": [] }), Code::Usage, "target"),
        (json!({ "layers": "0-99" }), Code::Usage, "layer 99"),
        (json!({ "layers": [99] }), Code::Usage, "layer 99"),
        (
            json!({ "rankPattern": { "gate_prj": 2 } }),
            Code::Usage,
            "rank-pattern gate_prj matches no layer that gets an adapter, did you mean gate_proj?",
        ),
        (
            json!({ "alphaPattern": { "lm_head": 2 } }),
            Code::Usage,
            "alpha-pattern lm_head",
        ),
        (
            json!({ "rankPattern": { "q_proj": 100_000 } }),
            Code::Usage,
            "rank 100000 does not fit model.layers.0.self_attn.q_proj",
        ),
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
fn what_a_run_reads_is_never_written_to() {
    let desk = Desk::new(TWENTY_WORDS);
    let model = desk.path("base.gguf");
    std::fs::copy(package().model_path("tiny-transformer"), &model).unwrap();
    let before = std::fs::read(&model).unwrap();
    std::fs::write(desk.path("held.txt"), TWENTY_WORDS).unwrap();
    let chat = r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#;
    std::fs::write(desk.path("chat.jsonl"), chat).unwrap();
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";
    std::fs::write(desk.path("mine.jinja"), template).unwrap();
    let first = json!({ "model": model, "maxSteps": 1, "output": desk.text("first/") });
    desk.run(first).0.unwrap();
    let adapter = std::fs::read(desk.path("first/adapter_config.json")).unwrap();
    for options in [
        json!({ "output": desk.text("base.safetensors") }),
        json!({ "initAdapter": desk.text("first/"), "log": desk.text("first/adapter_config.json") }),
        json!({
            "initAdapter": desk.text("first/adapter_model.safetensors"), "log": desk.text("first/adapter_model.safetensors")
        }),
        json!({ "log": desk.text("data.txt") }),
        json!({ "log": desk.text("base.gguf") }),
        json!({ "log": desk.text("held.txt"), "evalData": desk.text("./held.txt") }),
        json!({ "output": desk.text("x.safetensors"), "log": desk.text("x.gguf") }),
        json!({ "data": desk.text("chat.jsonl"), "chatTemplate": desk.text("mine.jinja"), "log": desk.text("./mine.jinja") }),
    ] {
        let mut all = json!({ "model": model, "maxSteps": 1, "overwrite": true });
        let given = options.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(given);
        assert_eq!(desk.run(all).0.unwrap_err().code, Code::Usage, "{options}");
    }
    assert_eq!(std::fs::read(&model).unwrap(), before);
    assert_eq!(
        std::fs::read(desk.path("first/adapter_config.json")).unwrap(),
        adapter
    );
    assert_eq!(
        std::fs::read_to_string(desk.path("mine.jinja")).unwrap(),
        template
    );
    let data = std::fs::read_to_string(desk.path("data.txt")).unwrap();
    assert_eq!(data, TWENTY_WORDS);
}

#[test]
fn a_place_that_cannot_be_written_to_is_found_before_any_step() {
    let desk = Desk::new(TWENTY_WORDS);
    std::fs::create_dir(desk.path("x.gguf")).unwrap();
    // Longer than a file system takes.
    let long = format!("{}.safetensors", "a".repeat(300));
    for output in [
        "data.txt/",
        "x.safetensors",
        "data.txt/x.safetensors",
        &long,
    ] {
        let (end, events) = desk.run(json!({ "output": desk.text(output), "overwrite": true }));
        assert_eq!(end.unwrap_err().code, Code::Io, "{output}");
        assert!(steps(&events).is_empty(), "{output}");
    }
}

#[test]
fn more_threads_than_help_are_refused() {
    let (end, _) = Desk::new(TWENTY_WORDS).run(json!({ "threads": 100_000 }));
    assert!(end.unwrap_err().message.contains("100000"));
}

#[test]
fn a_model_that_is_not_finite_is_blamed_and_not_the_learning_rate() {
    let desk = Desk::new(TWENTY_WORDS);
    let mut bytes = std::fs::read(package().model_path("tiny-transformer")).unwrap();
    // The end of the file is tensor data: scales and norms of all ones bits are NaN.
    let end = bytes.len();
    bytes[end - 65_536..end].fill(0xff);
    std::fs::write(desk.path("nan.gguf"), bytes).unwrap();
    let (end, _) = desk.run(json!({ "model": desk.text("nan.gguf") }));
    let error = end.unwrap_err();
    assert_eq!(error.code, Code::NonFinite);
    assert!(error.hint.unwrap().contains("the model"));
    assert!(!desk.path("out").exists());
}
