//! Adapters through every file format and back, for every base they can have.

mod golden;
mod tuned;

use amv_train::error::Code;
use amv_train::export::Output;
use amv_train::format::adapter;
use amv_train::format::gguf::{GgufFile, Value};
use amv_train::format::safetensors;
use serde_json::json;
use std::path::Path;

use golden::{Golden, case};
use tuned::{Tuned, base, pairs, replace, tensors_of};

const CASES: [&str; 6] = [
    "llama_gqa_tied",
    "llama2",
    "qwen3",
    "gemma2",
    "gemma3",
    "phi3",
];

fn files(case: &Path) -> [std::path::PathBuf; 2] {
    [case.to_owned(), case.join("model.gguf")]
}

#[test]
fn both_kinds_of_base_write_the_same_files_and_read_them_back() {
    for name in CASES {
        let case = case(name);
        let golden = Golden::open(&case, "golden");
        let folder = tempfile::tempdir().unwrap();
        let mut sets = Vec::new();
        for (index, file) in files(&case).iter().enumerate() {
            let tuned = Tuned::new(file, pairs(&golden, &base(file)));
            let directory = folder.path().join(format!("{index}/"));
            let output = Output::parse(&directory).unwrap();
            tuned.write(&output).unwrap();
            sets.push(output);
        }
        // Both files, read for both bases, give the pairs that each base trained.
        for file in files(&case) {
            let base = base(&file);
            for path in [sets[0].directory(), sets[0].gguf()] {
                let saved = adapter::read(&path, &base).unwrap();
                assert_eq!(saved.pairs, pairs(&golden, &base), "{name}");
                assert_eq!((saved.config.rank, saved.config.alpha), (3, 5.0));
            }
        }
        for place in [Output::peft, Output::gguf] {
            let [one, other] = [0, 1].map(|i| std::fs::read(place(&sets[i])).unwrap());
            assert!(
                one == other,
                "{name}: {} differs",
                place(&sets[0]).display()
            );
        }
        let config = |i: usize| std::fs::read(sets[i].peft_config().unwrap()).unwrap();
        assert_eq!(config(0), config(1));
    }
}

#[test]
fn tensors_have_the_names_and_values_of_the_reference() {
    for name in CASES {
        let case = case(name);
        let golden = Golden::open(&case, "golden");
        let folder = tempfile::tempdir().unwrap();
        let output = Output::Directory(folder.path().into());
        Tuned::new(&case, pairs(&golden, &base(&case)))
            .write(&output)
            .unwrap();
        let written = safetensors::Safetensors::open(&output.peft()).unwrap();
        assert_eq!(written.metadata()["format"], "pt");
        let expected = golden.tensors.tensor_names();
        let expected: Vec<_> = expected
            .filter(|name| name.starts_with("base_model."))
            .collect();
        assert_eq!(written.tensor_names().count(), expected.len());
        for tensor in expected {
            let weight = written.weight(tensor).unwrap();
            assert_eq!(weight.to_f32().unwrap(), golden.values(tensor), "{tensor}");
        }
    }
}

#[test]
fn a_file_gets_its_sidecar_and_gguf_beside_it() {
    let case = case("llama2");
    let golden = Golden::open(&case, "golden");
    let tuned = Tuned::new(&case, pairs(&golden, &base(&case)));
    let folder = tempfile::tempdir().unwrap();
    let output = Output::parse(&folder.path().join("new/x.safetensors")).unwrap();
    let written = tuned.write(&output).unwrap();
    let names: Vec<_> = written
        .iter()
        .map(|file| file.path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(names, ["x.safetensors", "x.gguf", "x_config.json"]);
    assert_eq!(std::fs::read_dir(output.directory()).unwrap().count(), 3);

    let text = std::fs::read_to_string(output.sidecar()).unwrap();
    let sidecar: serde_json::Value = serde_json::from_str(&text).unwrap();
    let hash = |i: usize| json!({"sha256": written[i].sha256, "bytes": written[i].bytes});
    assert_eq!(
        sidecar,
        json!({
            "format": "amv-train-adapter", "format_version": 1, "task": "llm", "target_ecosystem": "llamacpp",
            "peft_type": "LORA", "r": 3, "lora_alpha": 5.0, "lora_dropout": 0.1, "use_dora": false, "use_rslora": false,
            "rank_pattern": {}, "alpha_pattern": {}, "layers_to_transform": null,
            "target_modules": ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"],
            "base_model_name_or_path": "people/model-1b",
            "base_model": {"architecture": "llama", "format": "safetensors", "sha256": tuned.model.sha256},
            "tokenizer": {"sha256": null, "chat_template_sha256": null},
            "training": {"lr": 0.1},
            "result": {"steps": 1, "epochs": 1.0, "final_loss": 2.5},
            "files": {"x.safetensors": hash(0), "x.gguf": hash(1)},
            "created_by": concat!("amv-train ", env!("CARGO_PKG_VERSION")),
        })
    );
    let saved = adapter::read(&output.peft(), &tuned.base).unwrap();
    assert_eq!(saved.pairs, tuned.adapter.pairs().unwrap());
    // Without the settings the scale is unknown.
    std::fs::remove_file(output.sidecar()).unwrap();
    let error = adapter::read(&output.peft(), &tuned.base).unwrap_err();
    assert_eq!(error.code, Code::NotFound);
    assert!(
        error
            .message
            .contains("x_config.json or adapter_config.json")
    );
}

#[test]
fn the_gguf_adapter_has_the_keys_of_the_official_converter() {
    let case = case("gemma3");
    let golden = Golden::open(&case, "golden");
    let folder = tempfile::tempdir().unwrap();
    let output = Output::Directory(folder.path().into());
    Tuned::new(&case, pairs(&golden, &base(&case)))
        .write(&output)
        .unwrap();
    let file = GgufFile::open(&output.gguf()).unwrap();
    let metadata = file.metadata();
    assert_eq!(metadata.string("general.architecture"), Some("gemma3"));
    assert_eq!(metadata.string("general.type"), Some("adapter"));
    assert_eq!(metadata.string("adapter.type"), Some("lora"));
    assert_eq!(metadata.get("adapter.lora.alpha"), Some(&Value::F32(5.0)));
    assert_eq!(
        metadata.string("general.base_model.0.name"),
        Some("model-1b")
    );
    let shape = |name: &str| file.catalog().get(name).unwrap().shape.to_vec();
    let down = golden.matrix("base_model.model.model.layers.1.mlp.down_proj.lora_A.weight");
    assert_eq!(shape("blk.1.ffn_down.weight.lora_a"), [3, down.columns]);
    assert_eq!(shape("blk.1.ffn_down.weight.lora_b")[1], 3);
}

/// llama.cpp's own converter did not know such names: ggml-org/llama.cpp#3651, #5602.
#[test]
fn a_head_of_its_own_becomes_output_weight() {
    let case = case("llama2");
    let golden = Golden::open(&case, "golden");
    let mut all = pairs(&golden, &base(&case));
    let like = &all["model.layers.0.self_attn.v_proj"];
    let rows = 72;
    let mut head = like.clone();
    head.b.rows = rows;
    head.b.values = (0..rows * 3).map(|i| (i % 7) as f32).collect();
    all.insert("lm_head".into(), head);
    let tuned = Tuned::new(&case, all.clone());
    let folder = tempfile::tempdir().unwrap();
    let output = Output::Directory(folder.path().into());
    tuned.write(&output).unwrap();
    let file = GgufFile::open(&output.gguf()).unwrap();
    for name in ["output.weight.lora_a", "output.weight.lora_b"] {
        assert!(file.catalog().get(name).is_some(), "{name}");
    }
    let config = std::fs::read_to_string(output.peft_config().unwrap()).unwrap();
    assert!(config.contains("\"lm_head\""));
    for path in [output.directory(), output.gguf()] {
        assert_eq!(adapter::read(&path, &tuned.base).unwrap().pairs, all);
    }
    // PEFT stores the head's and the embedding's own weights beside such an adapter: unchanged copies may be there.
    let mut tensors = tensors_of(&output.peft());
    let model = safetensors::Safetensors::open(&case).unwrap();
    for (name, own) in [
        (
            "base_model.model.lm_head.base_layer.weight",
            "lm_head.weight",
        ),
        (
            "base_model.model.model.embed_tokens.weight",
            "model.embed_tokens.weight",
        ),
    ] {
        tensors.push((name.into(), model.weight(own).unwrap()));
    }
    replace(&output.peft(), &tensors);
    let saved = adapter::read(&output.directory(), &tuned.base).unwrap();
    assert_eq!(saved.pairs, all);
}

#[test]
fn values_that_are_no_numbers_are_not_written() {
    let case = case("llama2");
    let golden = Golden::open(&case, "golden");
    let mut all = pairs(&golden, &base(&case));
    all.get_mut("model.layers.1.mlp.up_proj").unwrap().b.values[4] = f32::NAN;
    let folder = tempfile::tempdir().unwrap();
    let output = Output::parse(&folder.path().join("new/")).unwrap();
    let error = Tuned::new(&case, all).write(&output).unwrap_err();
    assert_eq!(error.code, Code::NonFinite);
    assert_eq!(
        error.message,
        "model.layers.1.mlp.up_proj: B[1, 1] of the adapter is NaN"
    );
    assert!(!output.directory().exists());
}
