//! Every kind of adapter that PEFT saved, through our files and back: nothing of it changes.

mod golden;
mod tuned;

use std::path::{Path, PathBuf};

use amv_train::export::Output;
use amv_train::format::Checkpoint;
use amv_train::format::adapter::{self, SavedAdapter};
use amv_train::format::gguf::GgufFile;
use amv_train::lora::{LoraConfig, Merge, Targets};
use amv_train::nn::Source;
use serde_json::Value;

use golden::case;
use tuned::{Tuned, base};

const VARIANTS: [&str; 6] = [
    "dora",
    "rslora",
    "patterns",
    "layers",
    "embeddings",
    "everything",
];

fn variant(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("__test__/fixtures/variants")
        .join(name)
}

fn bases() -> [PathBuf; 2] {
    let case = case("llama_bias");
    [case.clone(), case.join("model.gguf")]
}

fn written(saved: &SavedAdapter, file: &Path, output: &Output) {
    let tuned = Tuned::of(file, saved.config.clone(), saved.pairs.clone());
    tuned.write(output).unwrap();
}

fn without_targets(config: &LoraConfig) -> LoraConfig {
    LoraConfig {
        targets: Targets::AllLinear,
        ..config.clone()
    }
}

#[test]
fn peft_files_come_back_as_they_were() {
    for name in VARIANTS {
        for file in bases() {
            let saved = adapter::read(&variant(name), &base(&file)).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let directory = Output::parse(&folder.path().join("a/")).unwrap();
            let single = Output::parse(&folder.path().join("b.safetensors")).unwrap();
            for (output, path) in [
                (&directory, directory.directory()),
                (&single, single.peft()),
            ] {
                written(&saved, &file, output);
                let back = adapter::read(&path, &base(&file)).unwrap();
                assert_eq!(back.pairs, saved.pairs, "{name}");
                assert_eq!(
                    without_targets(&back.config),
                    without_targets(&saved.config),
                    "{name}"
                );
            }
            let config = |path: &Path| -> Value {
                serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
            };
            let ours = config(&directory.peft_config().unwrap());
            let theirs = config(&variant(name).join("adapter_config.json"));
            // Numbers of the pattern, compared above, are 9 there and 9.0 here.
            for (field, value) in ours.as_object().unwrap() {
                let same = match (value.as_f64(), theirs[field].as_f64()) {
                    (Some(ours), Some(theirs)) => ours == theirs,
                    _ if ["base_model_name_or_path", "alpha_pattern"].contains(&field.as_str()) => {
                        true
                    }
                    _ => *value == theirs[field],
                };
                assert!(same, "{name}: {field} is {value}, not {}", theirs[field]);
            }
        }
    }
}

#[test]
fn pattern_keys_that_match_nothing_are_left_out_of_what_peft_saved() {
    let file = &bases()[0];
    let folder = tempfile::tempdir().unwrap();
    for name in ["adapter_model.safetensors", "adapter_config.json"] {
        std::fs::copy(variant("patterns").join(name), folder.path().join(name)).unwrap();
    }
    let config = folder.path().join("adapter_config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    let more = text.replace(
        "\"rank_pattern\": {",
        "\"rank_pattern\": {\"out_proj\": 64,",
    );
    assert_ne!(more, text);
    std::fs::write(&config, more).unwrap();
    let saved = adapter::read(folder.path(), &base(file)).unwrap();
    let expected = adapter::read(&variant("patterns"), &base(file)).unwrap();
    assert_eq!(saved.config, expected.config);
    Tuned::of(file, saved.config, saved.pairs);
}

#[test]
fn llama_cpp_files_keep_the_product_and_dora_has_none() {
    for name in VARIANTS {
        for file in bases() {
            let base = base(&file);
            let saved = adapter::read(&variant(name), &base).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let output = Output::Directory(folder.path().into());
            written(&saved, &file, &output);
            assert_eq!(output.gguf().exists(), !saved.config.dora, "{name}");
            if saved.config.dora {
                continue;
            }
            let back = adapter::read(&output.gguf(), &base).unwrap();
            assert_eq!(back.pairs.len(), saved.pairs.len(), "{name}");
            let mut folded = 0;
            for (path, pair) in &saved.pairs {
                let other = &back.pairs[path];
                assert_eq!(pair.a, other.a, "{name} {path}");
                let (ours, theirs) = (saved.config.scale_of(path), back.config.scale_of(path));
                folded += usize::from(pair.b != other.b);
                for (ours_b, b) in pair.b.values.iter().zip(&other.b.values) {
                    let (expected, found) = (ours * ours_b, theirs * b);
                    assert!(
                        (expected - found).abs() <= 3e-7 * expected.abs(),
                        "{name} {path}: {expected} {found}"
                    );
                }
            }
            // One alpha serves all layers but those with an alpha of their own: v_proj twice, and one down_proj.
            let expected = if name == "patterns" { 3 } else { 0 };
            assert_eq!(folded, expected, "{name}");
        }
    }
}

#[test]
fn the_table_of_a_llama_cpp_file_is_looked_up_by_token() {
    let file = &bases()[0];
    let saved = adapter::read(&variant("embeddings"), &base(file)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = Output::Directory(folder.path().into());
    written(&saved, file, &output);
    let gguf = GgufFile::open(&output.gguf()).unwrap();
    let shape = |name: &str| gguf.catalog().get(name).unwrap().shape.to_vec();
    // Source: build_inp_embd of llama.cpp takes rows of lora_a.
    assert_eq!(shape("token_embd.weight.lora_a"), [72, 3]);
    assert_eq!(shape("token_embd.weight.lora_b"), [32, 3]);
    assert_eq!(shape("output.weight.lora_a"), [3, 32]);
}

/// The merged weight must act as the adapter does: compared through the whole model, for both kinds of base.
#[test]
fn merged_weights_give_the_logits_of_the_adapter() {
    use amv_train::backend::Bytes;
    use amv_train::models::Decoder;
    use amv_train::nn::{Layout, Loader};
    use amv_train::quant::{Format, Weight};
    use amv_train::tensor::{Ctx, Rows, Tensor};
    use std::sync::Arc;

    struct Merged(Arc<dyn Source>, SavedAdapter);

    impl Source for Merged {
        fn weight(&self, name: &str) -> amv_train::error::Result<Weight> {
            let weight = self.0.weight(name)?;
            let path = name.strip_suffix(".weight").unwrap_or(name);
            let Some(pair) = self.1.pairs.get(path) else {
                return Ok(weight);
            };
            let merge = Merge::new(path, pair, self.1.config.scale_of(path), &weight)?;
            let mut values = weight.to_f32()?;
            let columns = weight.shape().last();
            for (block, rows) in values.chunks_mut(5 * columns).enumerate() {
                merge.rows(block * 5, rows)?;
            }
            Weight::new(Format::F32, weight.shape().clone(), Bytes::from_f32(values))
        }

        fn has(&self, name: &str) -> bool {
            self.0.has(name)
        }

        fn names(&self) -> Vec<String> {
            self.0.names()
        }

        fn layout(&self) -> Layout {
            self.0.layout()
        }
    }

    let ids: Vec<u32> = (3..30).collect();
    for name in VARIANTS {
        for file in bases() {
            let checkpoint = Checkpoint::open(&file).unwrap();
            let saved = adapter::read(&variant(name), &base(&file)).unwrap();
            let tuned = Tuned::of(&file, saved.config.clone(), saved.pairs.clone());
            let logits = |source: Arc<dyn Source>, adapter| {
                let model =
                    Decoder::load(checkpoint.config(), &Loader::new(source, adapter)).unwrap();
                let ctx = Ctx::infer(Rows::of_samples(&[(0, ids.len())]).unwrap());
                let ids = Tensor::of_u32(ids.clone(), [ids.len()]).unwrap();
                model.logits(&ids, &ctx).unwrap().values().unwrap().to_vec()
            };
            let adapted = logits(checkpoint.source(), Some(tuned.adapter.clone()));
            let merged = logits(Arc::new(Merged(checkpoint.source(), saved)), None);
            let plain = logits(checkpoint.source(), None);
            let distance = |a: &[f32], b: &[f32]| {
                let each = a.iter().zip(b).map(|(a, b)| (a - b).abs());
                each.fold(0.0_f32, f32::max)
            };
            assert!(
                distance(&merged, &adapted) < 1e-4,
                "{name}: {}",
                distance(&merged, &adapted)
            );
            assert!(distance(&plain, &adapted) > 0.1, "{name}");
        }
    }
}
