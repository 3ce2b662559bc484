//! Products with rounded factors against those in f32: losses, and the gradients of an adapter of which no part is zero.
//!
//! Measured for 256 tokens, loss and gradient: the built-in model bf16 0.014 % and 0.26 %, int8 0.020 % and 1.1 %;
//! SmolLM2-135M Q4_1 bf16 0.012 % and 0.77 %, int8 0.23 % and 5.5 %.

use std::path::Path;
use std::sync::Arc;

use amv_train::autograd::backward;
use amv_train::backend::cpu::product::Precision;
use amv_train::format::Checkpoint;
use amv_train::lora::{Adapter, LoraConfig, Optimizer, Targets};
use amv_train::models::Decoder;
use amv_train::nn::Loader;
use amv_train::tensor::{Ctx, Grads, Rows, Tensor};

const TOKENS: usize = 256;

struct Computed {
    loss: f64,
    gradient: Vec<f64>,
}

fn config() -> LoraConfig {
    LoraConfig {
        rank: 8,
        targets: Targets::parse("all-linear").unwrap(),
        ..LoraConfig::default()
    }
}

fn loaded(checkpoint: &Checkpoint, adapter: &Arc<Adapter>, precision: Precision) -> Decoder {
    let loader = Loader::new(checkpoint.source(), Some(adapter.clone()));
    Decoder::load(checkpoint.config(), &loader.with_precision(precision)).unwrap()
}

/// The mean loss of one sample, and its gradients.
fn losses(model: &Decoder, ids: &[u32]) -> (f64, Grads) {
    let inputs = Tensor::of_u32(ids[..TOKENS].to_vec(), [TOKENS]).unwrap();
    let targets = Tensor::of_u32(ids[1..].to_vec(), [TOKENS]).unwrap();
    let ctx = Ctx::train(Rows::of_samples(&[(0, TOKENS)]).unwrap(), 1, 0);
    let losses = model.losses(&inputs, &targets, &ctx).unwrap();
    let sum: f64 = losses
        .values()
        .unwrap()
        .iter()
        .map(|&loss| f64::from(loss))
        .sum();
    let dy = Tensor::new(vec![1.0 / TOKENS as f32; TOKENS], [TOKENS]).unwrap();
    let mut grads = Grads::default();
    backward(losses, dy, &mut grads).unwrap();
    (sum / TOKENS as f64, grads)
}

fn computed(model: &Decoder, adapter: &Adapter, ids: &[u32]) -> Computed {
    let (loss, grads) = losses(model, ids);
    let mut gradient = Vec::new();
    adapter
        .each_parameter(|parameter| {
            let values = grads.get(parameter.value).unwrap().values()?;
            gradient.extend(values.iter().map(|&value| f64::from(value)));
            Ok(())
        })
        .unwrap();
    Computed { loss, gradient }
}

/// ‖a − b‖ / ‖b‖
fn off_by(a: &[f64], b: &[f64]) -> f64 {
    let difference: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
    let length: f64 = b.iter().map(|b| b.powi(2)).sum();
    (difference / length).sqrt()
}

/// `bounds`: of the loss and of the gradients, relative, for bf16 and for int8.
fn stays_near_f32(model: &Path, bounds: [(f64, f64); 2]) {
    let checkpoint = Checkpoint::open(model).unwrap();
    let first = Adapter::new(config());
    let plain = loaded(&checkpoint, &first, Precision::F32);
    let vocab = plain.vocab() as u32;
    // Ids that repeat, as text does.
    let ids: Vec<u32> = (0..=TOKENS as u32)
        .map(|i| (i * i / 7 * 31) % 199 * (vocab / 200))
        .collect();
    let (_, grads) = losses(&plain, &ids);
    first
        .apply(Optimizer::adamw(0.0), 0.01, 1.0, &grads)
        .unwrap();
    let expected = computed(&plain, &first, &ids);
    for (precision, bounds) in [Precision::Bf16, Precision::Int8].into_iter().zip(bounds) {
        if !precision.in_hardware() {
            eprintln!("{}: this processor has no such products", precision.name());
            continue;
        }
        let adapter = Adapter::continuing(config(), first.pairs().unwrap());
        let model = loaded(&checkpoint, &adapter, precision);
        let got = computed(&model, &adapter, &ids);
        let loss = (got.loss / expected.loss - 1.0).abs();
        let gradient = off_by(&got.gradient, &expected.gradient);
        println!(
            "{}: loss off by {loss:.5}, gradients by {gradient:.4}",
            precision.name()
        );
        assert!(gradient > 1e-4, "{} computes in f32", precision.name());
        assert!(
            loss < bounds.0 && gradient < bounds.1,
            "{}: {loss} {gradient}",
            precision.name()
        );
    }
}

#[test]
fn the_built_in_model_stays_near_f32() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("builtin/tiny-transformer.gguf");
    stays_near_f32(&model, [(3e-3, 3e-2), (5e-3, 5e-2)]);
}

#[test]
fn a_real_model_stays_near_f32() {
    const SMOLLM2: &str = "target/parity/SmolLM2-135M-Instruct.Q4_1.gguf";
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join(SMOLLM2);
    if !model.exists() {
        let strict = std::env::var("AMV_TEST_STRICT").is_ok_and(|value| value == "1");
        assert!(!strict, "{SMOLLM2} is missing");
        eprintln!("skipped: {SMOLLM2} is missing");
        return;
    }
    stays_near_f32(&model, [(3e-3, 3e-2), (1.5e-2, 0.15)]);
}
