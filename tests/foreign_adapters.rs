//! Adapter files that cannot be continued: each is refused by name, with a way out where there is one.

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

/// MLX names (ggml-org/llama.cpp#10551), and everything else that is no pair of matrices.
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
