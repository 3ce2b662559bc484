//! A base in every weight format trains, on one module and on all, and gives the numbers of the same base in f32.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use amv_train::backend::Bytes;
use amv_train::data::{Plan, Sample};
use amv_train::format::Checkpoint;
use amv_train::format::gguf::{self, Metadata, Value};
use amv_train::lora::{Adapter, LoraConfig, Optimizer, Targets};
use amv_train::models::Decoder;
use amv_train::nn::Loader;
use amv_train::ops::IGNORED;
use amv_train::quant::{Format, Weight};
use amv_train::shape::Shape;
use amv_train::tensor::{Activations, Random};
use amv_train::train::{Event, Listener, Progress, Schedule, Settings, Shape as Curve, Trainer};

const WIDTH: usize = 256;
const VOCAB: usize = 40;

/// The f16 fields of a block as (offset, value), so that random bytes become weights of either sign near 0.1.
fn scales(format: Format) -> &'static [(usize, f32)] {
    match format {
        Format::F32 | Format::F16 | Format::BF16 => &[],
        Format::Q4_0 | Format::Q5_0 => &[(0, 0.01)],
        Format::Q4_1 => &[(0, 0.01), (2, -0.075)],
        Format::Q5_1 => &[(0, 0.005), (2, -0.08)],
        Format::Q8_0 | Format::IQ4NL => &[(0, 0.001)],
        Format::Q2K => &[(80, 0.006), (82, 0.009)],
        Format::Q3K => &[(108, 0.001)],
        Format::Q4K => &[(0, 0.000_3), (2, 0.002_2)],
        Format::Q5K => &[(0, 0.000_15), (2, 0.002_3)],
        Format::Q6K => &[(208, 0.000_05)],
        Format::IQ4XS => &[(0, 0.000_05)],
    }
}

/// A matrix of random blocks; plain formats get random values of the same size.
fn weight(format: Format, shape: [usize; 2], random: Random) -> Weight {
    let elements = shape[0] * shape[1];
    let bytes: Vec<u8> = match format {
        Format::F32 | Format::F16 | Format::BF16 => (0..elements)
            .flat_map(|i| {
                let value = random.uniform(i as u64) * 0.2 - 0.1;
                match format {
                    Format::F32 => value.to_le_bytes().to_vec(),
                    Format::F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
                    _ => half::bf16::from_f32(value).to_le_bytes().to_vec(),
                }
            })
            .collect(),
        _ => {
            let block = format.block_bytes();
            let count = elements / format.block_elements() * block;
            let mut bytes: Vec<u8> = (0..count).map(|i| random.bits(i as u64) as u8).collect();
            for block in bytes.chunks_mut(block) {
                for (at, value) in scales(format) {
                    let bytes = half::f16::from_f32(*value).to_le_bytes();
                    block[*at..at + 2].copy_from_slice(&bytes);
                }
            }
            bytes
        }
    };
    Weight::new(format, Shape::from(shape), Bytes::copy_of(&bytes)).unwrap()
}

/// A llama of two layers with grouped key/value heads, its matrices in `format`; `plain` stores their values as F32.
fn write_model(path: &Path, format: Format, plain: bool) {
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", Value::String("llama".into()));
    for (key, value) in [
        ("block_count", 2),
        ("context_length", 64),
        ("embedding_length", WIDTH),
        ("feed_forward_length", WIDTH),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
    ] {
        metadata.set(format!("llama.{key}"), Value::U32(value as u32));
    }
    metadata.set("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5));
    let mut names = vec![("token_embd.weight".to_owned(), [VOCAB, WIDTH])];
    for layer in 0..2 {
        for (name, outputs) in [
            ("attn_q", WIDTH),
            ("attn_k", WIDTH / 2),
            ("attn_v", WIDTH / 2),
            ("attn_output", WIDTH),
            ("ffn_gate", WIDTH),
            ("ffn_up", WIDTH),
            ("ffn_down", WIDTH),
        ] {
            names.push((format!("blk.{layer}.{name}.weight"), [outputs, WIDTH]));
        }
    }
    let f32s = |values: Vec<f32>, shape: Shape| {
        Weight::new(Format::F32, shape, Bytes::from_f32(values)).unwrap()
    };
    let mut tensors: Vec<(String, Weight)> = names
        .into_iter()
        .map(|(name, shape)| {
            let packed = weight(format, shape, Random::new(5).named(&name));
            match plain {
                true => (name, f32s(packed.to_f32().unwrap(), shape.into())),
                false => (name, packed),
            }
        })
        .collect();
    let norms = (0..2).flat_map(|layer| {
        [
            format!("blk.{layer}.attn_norm.weight"),
            format!("blk.{layer}.ffn_norm.weight"),
        ]
    });
    for name in norms.chain(["output_norm.weight".to_owned()]) {
        tensors.push((name, f32s(vec![1.0; WIDTH], [WIDTH].into())));
    }
    gguf::write(path, &metadata, &tensors).unwrap();
}

#[derive(Default)]
struct Losses(Mutex<Vec<(f64, f64)>>);

impl Listener for Losses {
    fn event(&self, event: &Event) {
        if let Event::Step {
            loss, grad_norm, ..
        } = event
        {
            self.0.lock().unwrap().push((*loss, *grad_norm));
        }
    }
}

/// Losses and gradient norms of three steps.
fn train(path: &Path, targets: &str) -> Vec<(f64, f64)> {
    let checkpoint = Checkpoint::open(path).unwrap();
    let config = LoraConfig {
        rank: 4,
        alpha: 8.0,
        targets: Targets::parse(targets).unwrap(),
        seed: 1,
        ..LoraConfig::default()
    };
    let adapter = Adapter::continuing(config, BTreeMap::new());
    let loader = Loader::new(checkpoint.source(), Some(adapter.clone()));
    let model = Decoder::load(checkpoint.config(), &loader).unwrap();
    let ids: Vec<u32> = (0..33).map(|i| (i * i + 3) % VOCAB as u32).collect();
    let targets = ids[1..].iter().copied().chain([IGNORED]).collect();
    let losses = Losses::default();
    let trainer = Trainer {
        model: &model,
        adapter: &adapter,
        samples: &[Sample {
            ids,
            targets,
            place: "here".to_owned(),
        }],
        eval: &[],
        settings: Settings {
            activations: Activations::Replayed,
            vocab_slice: None,
            plan: Plan {
                batch_size: 1,
                grad_accum: 1,
                shuffle_seed: None,
                packing: None,
            },
            schedule: Schedule {
                lr: 1e-3,
                shape: Curve::Constant,
                warmup: 0,
                total: 3,
            },
            optimizer: Optimizer::adamw(0.0),
            max_grad_norm: 1.0,
            eval_every: 0,
            sample_every: 0,
            seed: 0,
        },
        listener: &losses,
        stop: &AtomicBool::new(false),
        sample: &|_| Ok(()),
        save: &|_| (),
    };
    trainer.run(&mut Progress::default()).unwrap();
    losses.0.into_inner().unwrap()
}

#[test]
fn every_format_trains_one_module_and_all_like_its_values_in_f32() {
    let folder = tempfile::tempdir().unwrap();
    for format in Format::ALL {
        let (packed, plain) = (
            folder.path().join("packed.gguf"),
            folder.path().join("plain.gguf"),
        );
        write_model(&packed, format, false);
        write_model(&plain, format, true);
        for targets in ["q_proj", "all-linear"] {
            let (ours, expected) = (train(&packed, targets), train(&plain, targets));
            assert_eq!(ours.len(), 3);
            for (ours, expected) in ours.iter().zip(&expected) {
                // Only the order of f32 sums may differ.
                assert!(
                    (ours.0 - expected.0).abs() < 1e-5 * expected.0,
                    "{format} {targets}: loss {ours:?} {expected:?}"
                );
                assert!(
                    (ours.1 - expected.1).abs() < 1e-3 * expected.1,
                    "{format} {targets}: norm {ours:?} {expected:?}"
                );
                assert!(expected.1 > 0.0, "{format} {targets}: no gradient");
            }
            assert!(
                ours[2].0 < ours[0].0,
                "{format} {targets}: the loss does not fall: {ours:?}"
            );
        }
    }
}
