//! Every architecture against PyTorch: logits, losses and adapter gradients of small random models, from safetensors and
//! from GGUF. The fixtures are made by `__test__/reference/models.py`.

mod golden;

use std::path::Path;

use amv_train::autograd::backward;
use amv_train::format::Checkpoint;
use amv_train::lora::{Adapter, LoraConfig, Part};
use amv_train::models::Decoder;
use amv_train::nn::Loader;
use amv_train::ops::IGNORED;
use amv_train::tensor::{Ctx, Grads, Rows, Tensor};

use golden::{Golden, case, permuted};

/// f32 against f64 PyTorch: relative to the largest value.
const LOGITS: f32 = 1e-4;
const GRADIENTS: f32 = 1e-3;

fn close(what: &str, ours: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(ours.len(), expected.len(), "{what}: count");
    let largest = expected.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    let error = ours
        .iter()
        .zip(expected)
        .fold(0.0_f32, |max, (a, b)| max.max((a - b).abs()));
    assert!(
        error <= tolerance * largest,
        "{what}: off by {error:.2e} of {largest:.2e}"
    );
}

fn check(model: &Path, golden: &Golden) {
    let name = model.display();
    let checkpoint = Checkpoint::open(model).unwrap();
    let plain =
        Decoder::load(checkpoint.config(), &Loader::new(checkpoint.source(), None)).unwrap();
    let spec = plain.spec();
    let heads = (spec.heads, spec.kv_heads);
    let interleaved = spec.pairs == amv_train::ops::Pairs::Interleaved;
    let samples = golden.samples();
    for (index, ids) in samples.iter().enumerate() {
        let ctx = Ctx::infer(Rows::of_samples(&[(0, ids.len())]).unwrap());
        let logits = plain
            .logits(&Tensor::of_u32(ids.clone(), [ids.len()]).unwrap(), &ctx)
            .unwrap();
        let expected = golden.values(&format!("logits.{index}"));
        close(
            &format!("{name}: logits {index}"),
            logits.values().unwrap(),
            &expected,
            LOGITS,
        );
    }

    let pairs = golden.pairs(heads, spec.pairs);
    let config = LoraConfig {
        rank: 3,
        alpha: 5.0,
        ..LoraConfig::default()
    };
    let adapter = Adapter::continuing(config, pairs);
    let loader = Loader::new(checkpoint.source(), Some(adapter.clone()));
    let model = Decoder::load(checkpoint.config(), &loader).unwrap();

    // Both samples in one pass, one after the other: no padding, and each sees itself only.
    let ids: Vec<u32> = samples.concat();
    let mut targets = Vec::new();
    for sample in &samples {
        targets.extend(&sample[1..]);
        targets.push(IGNORED);
    }
    let lengths: Vec<(u32, usize)> = samples
        .iter()
        .enumerate()
        .map(|(i, s)| (i as u32, s.len()))
        .collect();
    let count = targets.iter().filter(|&&target| target != IGNORED).count();
    let time = ids.len();
    let ids = Tensor::of_u32(ids, [time]).unwrap();
    let targets = Tensor::of_u32(targets, [time]).unwrap();
    let ctx = Ctx::train(Rows::of_samples(&lengths).unwrap(), 1, 0);

    let infer = Ctx::infer(ctx.rows.clone());
    let logits = model.logits(&ids, &infer).unwrap();
    let expected: Vec<f32> = (0..samples.len())
        .flat_map(|i| golden.values(&format!("adapter.logits.{i}")))
        .collect();
    close(
        &format!("{name}: logits with the adapter"),
        logits.values().unwrap(),
        &expected,
        LOGITS,
    );

    let losses = model.losses(&ids, &targets, &ctx).unwrap();
    let mean = losses.values().unwrap().iter().sum::<f32>() / count as f32;
    let expected = golden.json["adapter_loss"].as_f64().unwrap() as f32;
    assert!(
        (mean - expected).abs() < 1e-4 * expected,
        "{name}: loss {mean} instead of {expected}"
    );

    let mut grads = Grads::default();
    let seed = Tensor::new(vec![1.0 / count as f32; time], [time]).unwrap();
    backward(losses, seed, &mut grads).unwrap();
    adapter
        .each_parameter(|parameter| {
            let expected = golden.values(&format!("grad.{}", parameter.name));
            let expected = match Part::of_peft_name(&parameter.name) {
                Some((path, Part::B)) => {
                    let rows = parameter.value.shape()[0];
                    permuted(&expected, rows, path, heads, interleaved)
                }
                _ => expected,
            };
            let gradient = grads.get(parameter.value).unwrap();
            let what = format!("{name}: gradient of {}", parameter.name);
            close(&what, gradient.values()?, &expected, GRADIENTS);
            Ok(())
        })
        .unwrap();
}

fn check_case(name: &str) {
    let case = case(name);
    let golden = Golden::open(&case, "golden");
    check(&case, &golden);
    let stem = golden.json["gguf"]["golden"].as_str().unwrap().to_owned();
    check(&case.join("model.gguf"), &Golden::open(&case, &stem));
}

macro_rules! cases {
    ($($name:ident)*) => { $(#[test] fn $name() { check_case(stringify!($name)); })* };
}

cases!(llama2 llama_gqa_tied llama3 llama_linear llama_bias mistral qwen2 qwen2_window qwen2_yarn qwen3 gemma2 gemma3 phi3 phi3_longrope);

#[test]
fn longrope_keeps_the_short_factors_within_the_original_context() {
    let case = case("phi3_longrope");
    check(&case, &Golden::open(&case, "golden_short"));
}
