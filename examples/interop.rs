//! Writes adapters as a training run does, with what we compute for them, for the real consumers in `__test__/interop`.
//!
//!     cargo run --example interop -- OUT
//!
//! For each small model, OUT/CASE/ gets `model.gguf` with a vocabulary (llama.cpp refuses a model without one) and, once
//! trained from each kind of base (`safetensors`, `gguf`), the adapter's directory and `<kind>.json` with token ids and
//! the logits without and with it. With target/parity's SmolLM2, OUT/smollm2/ gets the same for a quantised base, with
//! the log-probabilities of the text's own tokens instead of all logits.

#[path = "../tests/golden/mod.rs"]
mod golden;
#[path = "interop/packed.rs"]
mod packed;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use amv_train::autograd::backward;
use amv_train::data::Tokenizer;
use amv_train::error::{Error, Result};
use amv_train::export::{self, BaseModel, Export, Output};
use amv_train::format::adapter::{self, Base};
use amv_train::format::gguf::{self, Array, GgufFile, Value};
use amv_train::format::{Checkpoint, atomic};
use amv_train::lora::{Adapter, LoraConfig, Matrix, Optimizer, Pair, Targets};
use amv_train::models::{Decoder, adapter_base};
use amv_train::nn::Loader;
use amv_train::run::{self, Package};
use amv_train::tensor::{Ctx, Grads, Random, Rows, Tensor};
use amv_train::train::{Event, Listener};
use amv_train::{bail, error};
use golden::{Golden, case};
use serde_json::{Value as Json, json};

/// A case and how many tokens of each sample llama.cpp treats as we do: it ignores the window of phi3.
const CASES: [(&str, usize); 7] = [
    ("llama_gqa_tied", usize::MAX),
    ("llama2", usize::MAX),
    ("qwen2", usize::MAX),
    ("qwen3", usize::MAX),
    ("gemma2", usize::MAX),
    ("gemma3", usize::MAX),
    ("phi3", 11),
];

/// An adapter that changes less proves little, in nats per token.
const LEAST_EFFECT: f64 = 0.5;

const SMOLLM2: &str = "target/parity/SmolLM2-135M-Instruct.Q4_1.gguf";
const TEXT: &str = "The licensor grants you a copyright licence to reproduce, prepare derivative works of, publicly \
    display, publicly perform, sublicense, and distribute the work in source or object form. In 2004 the café at \
    No. 17 sold 350 cups a day; by 2019 it was closed, and nobody could say why.\n";

fn main() {
    let out = std::env::args_os()
        .nth(1)
        .unwrap_or("target/interop".into());
    if let Err(error) = write_all(Path::new(&out)) {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn write_all(out: &Path) -> Result<()> {
    for (name, tokens) in CASES {
        let case = case(name);
        let target = out.join(name);
        fs::create_dir_all(&target).map_err(|cause| Error::file("make", &target, &cause))?;
        add_vocabulary(&case.join("model.gguf"), &target.join("model.gguf"))?;
        let golden = Golden::open(&case, "golden");
        let ids: Vec<Vec<u32>> = golden
            .samples()
            .into_iter()
            .map(|ids| ids.into_iter().take(tokens).collect())
            .collect();
        let model = Model::open(&case)?;
        let mut pairs = golden.pairs((model.base.heads, model.base.kv_heads), model.base.pairs);
        if name == "llama2" {
            let width = model.plain.spec().width;
            let head = random_pair("lm_head", model.plain.vocab(), width);
            pairs.insert("lm_head".into(), head);
        }
        let pairs = model.trained(pairs, &ids)?;
        model.write(
            name,
            pairs,
            &ids,
            &target.join("safetensors"),
            Detail::Logits,
        )?;
        // The same adapter on the other kind of base, in that one's order of rows.
        let model = Model::open(&case.join("model.gguf"))?;
        let saved = adapter::read(&target.join("safetensors"), &model.base)?;
        model.write(
            name,
            saved.pairs,
            &ids,
            &target.join("gguf"),
            Detail::Logits,
        )?;
        let vocab = model.plain.vocab();
        merge(
            &target.join("model.gguf"),
            &target.join("gguf"),
            &target.join("merged.gguf"),
            "f32",
        )?;
        let directory = target.join("model");
        copy_with_tokenizer(&case, &directory, vocab)?;
        merge(
            &directory,
            &target.join("safetensors"),
            &target.join("merged/"),
            "f32",
        )?;
    }
    packed::write_packed(&out.join("packed"))?;
    write_smollm2(&out.join("smollm2"))
}

/// A quantised base of a real model.
fn write_smollm2(target: &Path) -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(SMOLLM2);
    if !file.exists() {
        eprintln!(
            "skipped: {SMOLLM2} is missing; __test__/reference/fetch-smollm2.sh puts it there"
        );
        return Ok(());
    }
    fs::create_dir_all(target).map_err(|cause| Error::file("make", target, &cause))?;
    write_quantised(&file, "smollm2", target).map(|_| ())
}

/// An adapter of queries and values of the quantised base `file`, trained from a random start. Gives the ids of the text.
fn write_quantised(file: &Path, name: &str, target: &Path) -> Result<Vec<u32>> {
    let model = Model::open(file)?;
    let spec = model.plain.spec();
    let (queries, values) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
    let mut pairs = BTreeMap::new();
    for layer in 0..spec.layers.len() {
        for (leaf, rows) in [("q_proj", queries), ("v_proj", values)] {
            let path = format!("model.layers.{layer}.self_attn.{leaf}");
            let pair = random_pair(&path, rows, spec.width);
            pairs.insert(path, pair);
        }
    }
    let tokenizer = match model.checkpoint.gguf() {
        Some(metadata) => Tokenizer::from_gguf(metadata)?,
        None => bail!(BadModel, "{} is not a GGUF file", file.display()),
    };
    let ids = vec![tokenizer.encode(TEXT)?];
    let pairs = model.trained(pairs, &ids)?;
    model.write(name, pairs, &ids, &target.join("gguf"), Detail::Targets)?;
    Ok(ids.concat())
}

/// How much of the outcome a report holds.
#[derive(Clone, Copy)]
enum Detail {
    Logits,
    Targets,
}

struct Model {
    checkpoint: Checkpoint,
    base: Base,
    plain: Decoder,
}

impl Model {
    fn open(file: &Path) -> Result<Model> {
        let checkpoint = Checkpoint::open(file)?;
        let plain = Decoder::load(checkpoint.config(), &Loader::new(checkpoint.source(), None))?;
        Ok(Model {
            base: adapter_base(&checkpoint)?,
            plain,
            checkpoint,
        })
    }

    fn tuned(&self, pairs: BTreeMap<String, Pair>) -> Result<(Arc<Adapter>, Decoder)> {
        let config = LoraConfig {
            rank: 3,
            alpha: 5.0,
            targets: Targets::Names(pairs.keys().cloned().collect()),
            ..LoraConfig::default()
        };
        let adapter = Adapter::continuing(config, pairs);
        let loader = Loader::new(self.checkpoint.source(), Some(adapter.clone()));
        let decoder = Decoder::load(self.checkpoint.config(), &loader)?;
        Ok((adapter, decoder))
    }

    /// `pairs` after as many steps on `samples` as lower the loss by more than [`LEAST_EFFECT`].
    fn trained(
        &self,
        pairs: BTreeMap<String, Pair>,
        samples: &[Vec<u32>],
    ) -> Result<BTreeMap<String, Pair>> {
        let goal = loss(&self.plain, samples)? - 1.5 * LEAST_EFFECT;
        let (adapter, tuned) = self.tuned(pairs)?;
        for step in 1..=100 {
            let mut grads = Grads::default();
            let (mut sum, mut count) = (0.0, 0);
            for (number, ids) in samples.iter().enumerate() {
                let time = ids.len() - 1;
                let inputs = Tensor::of_u32(ids[..time].to_vec(), [time])?;
                let targets = Tensor::of_u32(ids[1..].to_vec(), [time])?;
                let rows = Rows::of_samples(&[(number as u32, time)])?;
                let losses = tuned.losses(&inputs, &targets, &Ctx::train(rows, step, 0))?;
                sum += f64::from(losses.values()?.iter().sum::<f32>());
                count += time;
                backward(losses, Tensor::new(vec![1.0; time], [time])?, &mut grads)?;
            }
            if sum / count as f64 <= goal {
                return adapter.pairs();
            }
            adapter.apply(Optimizer::adamw(0.0), 0.01, 1.0 / count as f64, &grads)?;
        }
        bail!(Internal, "100 steps do not bring the loss to {goal}");
    }

    /// Writes the adapter of `pairs` to `directory`, and to `directory`.json what the model computes without and with it.
    fn write(
        &self,
        name: &str,
        pairs: BTreeMap<String, Pair>,
        ids: &[Vec<u32>],
        directory: &Path,
        detail: Detail,
    ) -> Result<()> {
        let (adapter, tuned) = self.tuned(pairs)?;
        let model = BaseModel {
            name: name.into(),
            format: self.checkpoint.format_name().into(),
            sha256: self.checkpoint.sha256()?,
        };
        let export = Export {
            adapter: &adapter,
            base: &self.base,
            model: &model,
            tokenizer: &export::Tokenizer::default(),
            training: json!({}),
            result: json!({}),
        };
        export::write(&Output::Directory(directory.into()), &export)?;
        let (before, after) = (loss(&self.plain, ids)?, loss(&tuned, ids)?);
        if (after - before).abs() < LEAST_EFFECT {
            bail!(
                Internal,
                "{name}: the adapter moves the loss from {before} to {after} only"
            );
        }
        println!(
            "{name} from {}: loss {before:.4} without, {after:.4} with the adapter",
            model.format
        );
        let outcome = |decoder: &Decoder| -> Result<Json> {
            let of_sample = |ids: &Vec<u32>| match detail {
                Detail::Logits => Ok(json!(logits(decoder, ids)?)),
                Detail::Targets => Ok(json!(log_probabilities(decoder, ids)?)),
            };
            ids.iter()
                .map(of_sample)
                .collect::<Result<Vec<Json>>>()
                .map(Json::from)
        };
        let report = json!({
            "model": self.checkpoint.path(),
            "input_ids": ids,
            "loss": before,
            "adapter_loss": after,
            "base": outcome(&self.plain)?,
            "adapter": outcome(&tuned)?,
        });
        let file = directory.with_extension("json");
        atomic::write_bytes(&file, report.to_string().as_bytes())
    }
}

/// Writes `model` with `adapter` in its weights, of type `kind`.
fn merge(model: &Path, adapter: &Path, output: &Path, kind: &str) -> Result<()> {
    struct Silent;
    impl Listener for Silent {
        fn event(&self, _: &Event) {}
    }
    let options = json!({ "model": model, "adapter": adapter, "output": output, "type": kind });
    let options = serde_json::from_value(options)
        .map_err(|cause| error!(Internal, "options of merge: {cause}"))?;
    let package = Package {
        dir: "builtin".into(),
        fetched: None,
    };
    run::merge(&options, &package, &Silent, &AtomicBool::new(false)).map(|_| ())
}

/// Copies the model directory `from` to `to` and gives it a tokenizer of `size` letters.
fn copy_with_tokenizer(from: &Path, to: &Path, size: usize) -> Result<()> {
    fs::create_dir_all(to).map_err(|cause| Error::file("make", to, &cause))?;
    for name in ["config.json", "model.safetensors"] {
        let place = to.join(name);
        fs::copy(from.join(name), &place).map_err(|cause| Error::file("write", &place, &cause))?;
    }
    let letter = |i: usize| (char::from(b'!' + i as u8).to_string(), json!(i));
    let vocabulary: serde_json::Map<String, Json> = (0..size).map(letter).collect();
    let tokenizer = json!({ "model": { "type": "BPE", "vocab": vocabulary, "merges": [] } });
    atomic::write_bytes(&to.join("tokenizer.json"), tokenizer.to_string().as_bytes())
}

/// Rows of [vocab], one for each token.
fn logits(decoder: &Decoder, ids: &[u32]) -> Result<Vec<Vec<f32>>> {
    let ctx = Ctx::infer(Rows::of_samples(&[(0, ids.len())])?);
    let logits = decoder.logits(&Tensor::of_u32(ids.to_vec(), [ids.len()])?, &ctx)?;
    let rows = logits.values()?.chunks_exact(decoder.vocab());
    Ok(rows.map(<[f32]>::to_vec).collect())
}

/// Natural log-probabilities of the tokens 1, 2, … of `ids`.
fn log_probabilities(decoder: &Decoder, ids: &[u32]) -> Result<Vec<f64>> {
    let rows = logits(decoder, ids)?;
    let of_target = |(row, target): (&Vec<f32>, &u32)| {
        let largest = row.iter().fold(f32::NEG_INFINITY, |max, x| max.max(*x));
        let sum: f64 = row.iter().map(|x| f64::from(x - largest).exp()).sum();
        f64::from(row[*target as usize] - largest) - sum.ln()
    };
    Ok(rows.iter().zip(&ids[1..]).map(of_target).collect())
}

/// Nats per predicted token over all samples.
fn loss(decoder: &Decoder, samples: &[Vec<u32>]) -> Result<f64> {
    let mut all = Vec::new();
    for ids in samples {
        all.extend(log_probabilities(decoder, ids)?);
    }
    Ok(-all.iter().sum::<f64>() / all.len() as f64)
}

/// A pair of rank 3, uniform in ±1/√in and ±1/8.
fn random_pair(name: &str, rows: usize, columns: usize) -> Pair {
    let random = Random::new(1).named(name);
    let matrix = |rows, columns, bound: f32, half| Matrix {
        rows,
        columns,
        values: (0..rows * columns)
            .map(|i| (random.fork(half).uniform(i as u64) * 2.0 - 1.0) * bound)
            .collect(),
    };
    Pair::new(
        matrix(3, columns, 1.0 / (columns as f32).sqrt(), 0),
        matrix(rows, 3, 0.125, 1),
    )
}

/// Copies a GGUF model and gives it a byte-level vocabulary, the smallest that llama.cpp takes.
fn add_vocabulary(from: &Path, to: &Path) -> Result<()> {
    let model = GgufFile::open(from)?;
    let mut metadata = model.metadata().clone();
    let tensors = model
        .tensor_names()
        .map(|name| Ok((name.to_owned(), model.weight(name)?)));
    let tensors: Vec<_> = tensors.collect::<Result<_>>()?;
    let Some((_, embedding)) = tensors.iter().find(|(name, _)| name == "token_embd.weight") else {
        bail!(BadModel, "{} has no token_embd.weight", from.display());
    };
    let size = embedding.shape()[0];
    // Letters from ! on stand for themselves in the byte alphabet; Ċ is the newline, which llama.cpp looks for.
    let token = |i: usize| match i {
        0 => "Ċ".to_owned(),
        // What the only merge makes.
        _ if i + 1 == size => "\"#".to_owned(),
        _ => char::from(b'!' + i as u8).to_string(),
    };
    // A name with phi3 in it would make llama.cpp look for that model's own special tokens.
    metadata.set("general.name", Value::String("small".into()));
    metadata.set("tokenizer.ggml.model", Value::String("gpt2".into()));
    metadata.set("tokenizer.ggml.pre", Value::String("gpt-2".into()));
    metadata.set(
        "tokenizer.ggml.tokens",
        Value::Array(Array::Strings((0..size).map(token).collect())),
    );
    metadata.set(
        "tokenizer.ggml.token_type",
        Value::Array(Array::I32s(vec![1; size])),
    );
    metadata.set(
        "tokenizer.ggml.merges",
        Value::Array(Array::Strings(vec!["\" #".into()])),
    );
    for role in ["bos", "eos"] {
        metadata.set(format!("tokenizer.ggml.{role}_token_id"), Value::U32(1));
    }
    metadata.set("tokenizer.ggml.add_bos_token", Value::Bool(false));
    gguf::write(to, &metadata, &tensors)
}
