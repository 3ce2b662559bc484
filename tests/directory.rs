//! A run on a Hugging Face directory, whole and in shards: the adapter is the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use amv_train::backend::Bytes;
use amv_train::data::Tokenizer;
use amv_train::format::safetensors;
use amv_train::quant::{Format, Weight};
use amv_train::run::{MergeOptions, Package, VerifyOptions, merge, train, verify};
use amv_train::tensor::Random;
use amv_train::train::{Event, Listener, TrainOptions};
use serde_json::json;

struct Quiet;

impl Listener for Quiet {
    fn event(&self, _: &Event) {}
}

/// A small random qwen2 with a real tokenizer, its tensors in `shards` files.
fn write_model(dir: &Path, shards: usize) {
    let tokenizer =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("__test__/fixtures/tokenizers/qwen2");
    std::fs::create_dir_all(dir).unwrap();
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(tokenizer.join(file), dir.join(file)).unwrap();
    }
    let vocab = Tokenizer::from_dir(dir).unwrap().vocab_size();
    let config = json!({
        "model_type": "qwen2", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "vocab_size": vocab,
    });
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();

    let mut tensors: Vec<(String, Weight)> = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        let random = Random::new(1).named(&name);
        let value =
            |i: usize| random.uniform(i as u64) * 0.4 - if shape.len() == 1 { -0.8 } else { 0.2 };
        let values = (0..shape.iter().product()).map(value).collect();
        tensors.push((
            name,
            Weight::new(Format::F32, shape.into(), Bytes::from_f32(values)).unwrap(),
        ));
    };
    add("model.embed_tokens.weight".to_owned(), &[vocab, 32]);
    add("model.norm.weight".to_owned(), &[32]);
    for layer in 0..2 {
        let at = |name: &str| format!("model.layers.{layer}.{name}");
        for (name, outputs, inputs) in [("q", 32, 32), ("k", 16, 32), ("v", 16, 32)] {
            add(
                at(&format!("self_attn.{name}_proj.weight")),
                &[outputs, inputs],
            );
            add(at(&format!("self_attn.{name}_proj.bias")), &[outputs]);
        }
        add(at("self_attn.o_proj.weight"), &[32, 32]);
        add(at("mlp.gate_proj.weight"), &[48, 32]);
        add(at("mlp.up_proj.weight"), &[48, 32]);
        add(at("mlp.down_proj.weight"), &[32, 48]);
        add(at("input_layernorm.weight"), &[32]);
        add(at("post_attention_layernorm.weight"), &[32]);
    }
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    if shards == 1 {
        return safetensors::write(&dir.join("model.safetensors"), &metadata, &tensors).unwrap();
    }
    let mut map = serde_json::Map::new();
    for (number, part) in tensors.chunks(tensors.len().div_ceil(shards)).enumerate() {
        let name = format!("model-{:05}-of-{shards:05}.safetensors", number + 1);
        safetensors::write(&dir.join(&name), &metadata, part).unwrap();
        map.extend(part.iter().map(|(tensor, _)| (tensor.clone(), json!(name))));
    }
    let index = json!({ "metadata": {}, "weight_map": map });
    std::fs::write(dir.join("model.safetensors.index.json"), index.to_string()).unwrap();
}

/// The merged directory has the files of its base and computes what the adapter does.
fn merged_is_verified(model: &Path, adapter: &Path, shards: usize) {
    let package = Package {
        dir: model.to_owned(),
        ..Package::default()
    };
    let output = adapter.with_file_name(format!("merged-{shards}"));
    let options = json!({ "model": model, "adapter": adapter, "output": output, "type": "bf16" });
    let options: MergeOptions = serde_json::from_value(options).unwrap();
    let stop = AtomicBool::new(false);
    let merged = merge(&options, &package, &Quiet, &stop).unwrap();
    assert_eq!(merged.layers, 14);
    let names = |dir: &Path| -> Vec<_> {
        let mut names: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .flatten()
            .map(|file| file.file_name())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(model), names(&output));
    let options = json!({ "model": model, "adapter": adapter, "exported": output });
    let options: VerifyOptions = serde_json::from_value(options).unwrap();
    let verdict = verify(&options, &package, &Quiet, &stop).unwrap();
    assert!(verdict.passed && verdict.format == "BF16", "{verdict:?}");
}

#[test]
fn a_directory_trains_whole_or_in_shards_and_gives_the_same_adapter() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.jsonl");
    std::fs::write(
        &data,
        "{\"text\":\"Hello, world! 1234\"}\n{\"text\":\"naïve café 你好\"}\n",
    )
    .unwrap();
    let adapters = [1, 3].map(|shards| {
        let model = folder.path().join(format!("model-{shards}"));
        write_model(&model, shards);
        let output = folder.path().join(format!("adapter-{shards}.safetensors"));
        let options: TrainOptions = serde_json::from_value(json!({
            "model": model, "data": data, "output": output, "maxSteps": 3, "lr": 0.01,
        }))
        .unwrap();
        let package = Package {
            dir: folder.path().to_owned(),
            ..Package::default()
        };
        let end = train(&options, &package, &Quiet, &AtomicBool::new(false)).unwrap();
        assert!(matches!(end, Event::End { steps: 3, .. }), "{end:?}");
        let sidecar =
            std::fs::read_to_string(output.with_file_name(format!("adapter-{shards}_config.json")))
                .unwrap();
        let sidecar: serde_json::Value = serde_json::from_str(&sidecar).unwrap();
        assert_eq!(sidecar["base_model"]["architecture"], "qwen2");
        assert_eq!(sidecar["base_model"]["format"], "safetensors");
        merged_is_verified(&model, &output, shards);
        std::fs::read(output).unwrap()
    });
    assert_eq!(adapters[0], adapters[1]);
}
