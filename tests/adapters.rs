//! Adapters through every file format and back, for every base they can have, and the files that must be refused.

mod golden;

use std::collections::BTreeMap;
use std::path::Path;

use amv_train::error::{Code, Error};
use amv_train::export::{self, BaseModel, Export, Output, Tokenizer};
use amv_train::format::adapter::{self, Base};
use amv_train::format::gguf::{GgufFile, Metadata, Value};
use amv_train::format::{Checkpoint, gguf, safetensors};
use amv_train::lora::{Adapter, LoraConfig, Pair, Targets};
use amv_train::models::{self, Decoder};
use amv_train::nn::Loader;
use amv_train::quant::Weight;
use serde_json::json;

use golden::{Golden, case};

const CASES: [&str; 6] = [
    "llama_gqa_tied",
    "llama2",
    "qwen3",
    "gemma2",
    "gemma3",
    "phi3",
];

/// A model with an adapter, ready to be written.
struct Tuned {
    base: Base,
    adapter: std::sync::Arc<Adapter>,
    model: BaseModel,
}

impl Tuned {
    /// The model `file` with these pairs, which are in its own row order.
    fn new(file: &Path, pairs: BTreeMap<String, Pair>) -> Tuned {
        let checkpoint = Checkpoint::open(file).unwrap();
        let config = LoraConfig {
            rank: 3,
            alpha: 5.0,
            dropout: 0.1,
            targets: Targets::Names(pairs.keys().cloned().collect()),
            seed: 0,
        };
        let adapter = Adapter::continuing(config, pairs);
        let loader = Loader::new(checkpoint.source(), Some(adapter.clone()));
        Decoder::load(checkpoint.config(), &loader).unwrap();
        Tuned {
            base: models::adapter_base(&checkpoint).unwrap(),
            adapter,
            model: BaseModel {
                name: "people/model-1b".into(),
                format: checkpoint.format_name().into(),
                sha256: checkpoint.sha256().unwrap(),
            },
        }
    }

    fn write(&self, output: &Output) -> Result<Vec<export::Written>, Error> {
        export::write(
            output,
            &Export {
                adapter: &self.adapter,
                base: &self.base,
                model: &self.model,
                tokenizer: &Tokenizer::default(),
                training: json!({"lr": 0.1}),
                result: json!({"steps": 1, "epochs": 1.0, "final_loss": 2.5}),
            },
        )
    }
}

/// The golden adapter of a case in the row order of `base`.
fn pairs(golden: &Golden, base: &Base) -> BTreeMap<String, Pair> {
    golden.pairs((base.heads, base.kv_heads), base.pairs)
}

fn base(file: &Path) -> Base {
    models::adapter_base(&Checkpoint::open(file).unwrap()).unwrap()
}

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
                assert_eq!((saved.rank, saved.alpha), (3, 5.0));
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

/// FIELD_REPORTS 63.
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

/// FIELD_REPORTS 62.
#[test]
fn whole_weights_are_refused_by_name_with_a_way_out() {
    let (folder, base, mut tensors) = peft_directory();
    let head = safetensors::Safetensors::open(&case("llama2")).unwrap();
    let mut changed = head.weight("lm_head.weight").unwrap().to_f32().unwrap();
    changed[7] += 1.0;
    tensors.push((
        "base_model.model.lm_head.weight".into(),
        weight(changed, [72, 32]),
    ));
    let error = refused(folder.path(), &base, &tensors);
    assert!(
        error
            .message
            .contains("base_model.model.lm_head.weight is a whole weight"),
        "{error}"
    );
    assert!(error.hint.unwrap().contains("modules_to_save"));
}

/// FIELD_REPORTS 64 and 65, and everything else that is no pair of matrices.
#[test]
fn tensors_that_are_no_lora_are_refused_by_name() {
    for (name, word) in [
        (
            "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
            "DoRA",
        ),
        (
            "base_model.model.model.embed_tokens.lora_embedding_A",
            "embeddings",
        ),
        ("model.layers.0.self_attn.q_proj.lora_a", "MLX"),
        (
            "base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias",
            "no part of a plain LoRA",
        ),
        (
            "lora_unet_down_blocks_0.lora_down.weight",
            "no name that PEFT gives",
        ),
    ] {
        let (folder, base, mut tensors) = peft_directory();
        tensors.push((name.into(), weight(vec![1.0; 32], [32, 1])));
        let error = refused(folder.path(), &base, &tensors);
        assert_eq!(error.code, Code::BadAdapter, "{error}");
        assert!(
            error.message.contains(name) && error.message.contains(word),
            "{error}"
        );
        if word == "DoRA" || word == "MLX" {
            assert!(error.hint.is_some(), "{name}");
        }
    }
}

#[test]
fn pairs_that_do_not_fit_the_base_are_refused_by_name() {
    let q = "base_model.model.model.layers.0.self_attn.q_proj";
    let first = |tensors: &[(String, Weight)], name: &str| {
        tensors.iter().position(|(other, _)| other == name).unwrap()
    };
    type Change<'a> = Box<dyn Fn(&mut Vec<(String, Weight)>) + 'a>;
    let a = format!("{q}.lora_A.weight");
    let b = format!("{q}.lora_B.weight");
    let changes: [(&str, Code, Change); 6] = [
        (
            "without its A",
            Code::BadAdapter,
            Box::new(|t| t.retain(|(name, _)| *name != a)),
        ),
        (
            "without its B",
            Code::BadAdapter,
            Box::new(|t| t.retain(|(name, _)| *name != b)),
        ),
        (
            "needs [rank, 32]",
            Code::BadAdapter,
            Box::new(|t| {
                let at = first(t, &a);
                t[at].1 = weight(vec![1.0; 3 * 31], [3, 31]);
            }),
        ),
        (
            "has rank 2",
            Code::BadAdapter,
            Box::new(|t| {
                let (at, of_b) = (first(t, &a), first(t, &b));
                t[at].1 = weight(vec![1.0; 2 * 32], [2, 32]);
                t[of_b].1 = weight(vec![1.0; 2 * 32], [32, 2]);
            }),
        ),
        (
            "made for another base",
            Code::BadAdapter,
            Box::new(|t| {
                for at in [first(t, &a), first(t, &b)] {
                    t[at].0 = t[at].0.replace("layers.0", "layers.99");
                }
            }),
        ),
        (
            "A[1, 0] of the adapter is inf",
            Code::NonFinite,
            Box::new(|t| {
                let at = first(t, &a);
                let mut values = t[at].1.to_f32().unwrap();
                values[32] = f32::INFINITY;
                t[at].1 = weight(values, [3, 32]);
            }),
        ),
    ];
    for (words, code, change) in changes {
        let (folder, base, mut tensors) = peft_directory();
        change(&mut tensors);
        let error = refused(folder.path(), &base, &tensors);
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(words), "{words}: {error}");
    }
}

#[test]
fn gguf_adapters_of_another_kind_are_refused_by_name() {
    let case = case("llama2");
    let golden = Golden::open(&case, "golden");
    let base = base(&case);
    let folder = tempfile::tempdir().unwrap();
    let output = Output::Directory(folder.path().into());
    Tuned::new(&case, pairs(&golden, &base))
        .write(&output)
        .unwrap();
    let good = GgufFile::open(&output.gguf()).unwrap();
    let tensors: Vec<(String, Weight)> = good
        .tensor_names()
        .map(|name| (name.to_owned(), good.weight(name).unwrap()))
        .collect();
    let path = folder.path().join("other.gguf");
    type Change<'a> = &'a dyn Fn(&mut Metadata, &mut Vec<(String, Weight)>);
    let read = |change: Change| {
        let (mut metadata, mut tensors) = (good.metadata().clone(), tensors.clone());
        change(&mut metadata, &mut tensors);
        gguf::write(&path, &metadata, &tensors).unwrap();
        adapter::read(&path, &base)
    };
    let message = |key: &str, value: &str| {
        let error = read(&|metadata, _| metadata.set(key, Value::String(value.into())));
        error.unwrap_err().message
    };
    assert!(
        message("general.architecture", "qwen2")
            .ends_with("general.architecture is qwen2, not llama")
    );
    assert!(message("general.type", "model").ends_with("general.type is model, not adapter"));
    assert!(message("adapter.type", "control_vector").contains("not lora"));
    for (name, words) in [
        (
            "blk.0.attn_norm.weight",
            "ends neither in .lora_a nor in .lora_b",
        ),
        ("blk.0.attn_q.weight.lora_magnitude", "ends neither"),
        ("blk.0.attn_qkv.weight.lora_a", "belongs to no layer"),
        ("blk.7.attn_q.weight.lora_a", "without its B"),
    ] {
        let extra = |_: &mut Metadata, tensors: &mut Vec<(String, Weight)>| {
            tensors.push((name.into(), weight(vec![1.0; 32], [1, 32])));
        };
        let error = read(&extra).unwrap_err();
        assert!(
            error.message.contains(name) && error.message.contains(words),
            "{error}"
        );
    }
    // llama.cpp takes no alpha, or 0, for a scale of 1.
    let saved = read(&|metadata, _| metadata.set("adapter.lora.alpha", Value::F32(0.0)));
    assert_eq!(saved.unwrap().alpha, 3.0);
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

fn weight(values: Vec<f32>, shape: [usize; 2]) -> Weight {
    let bytes = amv_train::backend::Bytes::from_f32(values);
    Weight::new(amv_train::quant::Format::F32, shape.into(), bytes).unwrap()
}

/// The golden adapter of llama2 as a PEFT directory, and its tensors for changing.
fn peft_directory() -> (tempfile::TempDir, Base, Vec<(String, Weight)>) {
    let case = case("llama2");
    let base = base(&case);
    let folder = tempfile::tempdir().unwrap();
    let output = Output::Directory(folder.path().into());
    Tuned::new(&case, pairs(&Golden::open(&case, "golden"), &base))
        .write(&output)
        .unwrap();
    let tensors = tensors_of(&output.peft());
    (folder, base, tensors)
}

fn tensors_of(path: &Path) -> Vec<(String, Weight)> {
    let file = safetensors::Safetensors::open(path).unwrap();
    file.tensor_names()
        .map(|name| (name.to_owned(), file.weight(name).unwrap()))
        .collect()
}

fn replace(path: &Path, tensors: &[(String, Weight)]) {
    safetensors::write(path, &BTreeMap::new(), tensors).unwrap();
}

/// The error of reading the directory with these tensors in place of its own.
fn refused(directory: &Path, base: &Base, tensors: &[(String, Weight)]) -> Error {
    replace(&directory.join("adapter_model.safetensors"), tensors);
    adapter::read(directory, base).unwrap_err()
}
