//! Adapter files of others: those that cannot be continued are refused by name, with a way out where there is one.

mod golden;
mod tuned;

use std::path::Path;

use amv_train::error::{Code, Error};
use amv_train::export::Output;
use amv_train::format::adapter::{self, Base};
use amv_train::format::gguf::{GgufFile, Metadata, Value};
use amv_train::format::{gguf, safetensors};
use amv_train::quant::Weight;

use golden::{Golden, case};
use tuned::{Tuned, base, pairs, replace, tensors_of, weight};

/// ggml-org/llama.cpp#11554: an adapter with modules_to_save.
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

/// Names of MLX among those of PEFT, and everything else that is no pair of matrices.
#[test]
fn tensors_that_are_no_lora_are_refused_by_name() {
    for (name, word) in [
        (
            "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
            "use_dora is false",
        ),
        (
            "base_model.model.model.embed_tokens.lora_embedding_A",
            "without its B",
        ),
        ("model.layers.0.self_attn.q_proj.lora_a", "MLX"),
        (
            "base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias",
            "no part of a LoRA or DoRA",
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
        if word == "MLX" {
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
    assert_eq!(saved.unwrap().config.alpha, 3.0);
}

/// ggml-org/llama.cpp#10551: mlx-lm computes W·x + scale·(x·lora_a)·lora_b, with lora_a [in, rank] and lora_b [rank, out].
#[test]
fn an_adapter_of_mlx_is_the_one_of_peft_turned() {
    let (peft, base, tensors) = peft_directory();
    let expected = adapter::read(peft.path(), &base).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut of_mlx = Vec::new();
    for (name, tensor) in &tensors {
        let name = name.strip_prefix("base_model.model.").unwrap();
        let name = name
            .replace(".lora_A.weight", ".lora_a")
            .replace(".lora_B.weight", ".lora_b");
        let (rows, columns) = (tensor.shape()[0], tensor.shape()[1]);
        let values = tensor.to_f32().unwrap();
        let turned = (0..rows * columns).map(|at| values[at % rows * columns + at / rows]);
        of_mlx.push((name, weight(turned.collect(), [columns, rows])));
    }
    let file = folder.path().join("adapters.safetensors");
    replace(&file, &of_mlx);
    let write = |settings: &str| {
        std::fs::write(folder.path().join("adapter_config.json"), settings).unwrap();
    };
    // The golden adapter has alpha 5 and rank 3.
    write(
        r#"{"fine_tune_type": "lora", "num_layers": 16, "lora_parameters": {"rank": 3, "scale": 1.6666666, "dropout": 0.0}}"#,
    );
    for path in [folder.path(), &file] {
        let saved = adapter::read(path, &base).unwrap();
        assert_eq!(saved.pairs, expected.pairs);
        for path in saved.pairs.keys() {
            let difference = saved.config.scale_of(path) - expected.config.scale_of(path);
            assert!(difference.abs() < 1e-6, "{path}: {difference}");
        }
        assert_eq!((saved.config.rank, saved.config.dora), (3, false));
    }
    for (settings, words) in [
        (r#"{"fine_tune_type": "full"}"#, "fine_tune_type is full"),
        (r#"{"lora_parameters": {"rank": 3}}"#, "the scale null"),
        (
            r#"{"fine_tune_type": "dora", "lora_parameters": {"scale": 1}}"#,
            "there is no model.layers.0.mlp.down_proj.m",
        ),
    ] {
        write(settings);
        let error = adapter::read(folder.path(), &base).unwrap_err();
        assert_eq!(error.code, Code::BadAdapter);
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn a_dora_of_mlx_has_its_lengths() {
    let folder = tempfile::tempdir().unwrap();
    let path = "model.layers.1.self_attn.o_proj";
    let values = |count: usize| (0..count).map(|at| at as f32 + 1.0).collect::<Vec<f32>>();
    let lengths = amv_train::backend::Bytes::from_f32(values(32));
    let lengths = Weight::new(amv_train::quant::Format::F32, [32].into(), lengths).unwrap();
    let tensors = [
        (format!("{path}.lora_a"), weight(values(64), [32, 2])),
        (format!("{path}.lora_b"), weight(values(64), [2, 32])),
        (format!("{path}.m"), lengths),
    ];
    replace(&folder.path().join("adapters.safetensors"), &tensors);
    let settings = r#"{"fine_tune_type": "dora", "lora_parameters": {"rank": 2, "scale": 20.0}}"#;
    std::fs::write(folder.path().join("adapter_config.json"), settings).unwrap();
    let saved = adapter::read(folder.path(), &base(&case("llama2"))).unwrap();
    let pair = &saved.pairs[path];
    assert_eq!(pair.magnitude.as_deref(), Some(&values(32)[..]));
    // A [2, 32]: its first row are the first column of lora_a; B [32, 2]: its first row are the first of each row of lora_b.
    assert_eq!(pair.a.values[..3], [1.0, 3.0, 5.0]);
    assert_eq!(pair.b.values[..2], [1.0, 33.0]);
    assert!(saved.config.dora && saved.config.scale_of(path) == 20.0);
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

/// The error of reading the directory with these tensors in place of its own.
fn refused(directory: &Path, base: &Base, tensors: &[(String, Weight)]) -> Error {
    replace(&directory.join("adapter_model.safetensors"), tensors);
    adapter::read(directory, base).unwrap_err()
}
