//! What lies between the products with frozen weights, in the sizes of SmolLM2-135M: forward, and backward through the graph.

use std::hint::black_box;

use amv_train::autograd::backward;
use amv_train::backend::cpu::product::Precision;
use amv_train::error::Result;
use amv_train::lora::{Adapter, LoraConfig, Optimizer};
use amv_train::ops::{Activation, Attention, Pairs, turns};
use amv_train::quant::Format;
use amv_train::tensor::{Grads, Tensor};

use crate::products::{values, weight};
use crate::table::{Bench, Cost};

const TIME: usize = 512;
const WIDTH: usize = 576;
const HIDDEN: usize = 1536;
const HEADS: usize = 9;
const KV_HEADS: usize = 3;
const DIM: usize = 64;
const VOCAB: usize = 49152;
const RANK: usize = 8;
const LAYERS: usize = 30;

pub fn run(bench: &Bench) -> Result<()> {
    bench.section("attention and what goes by rows");
    for precision in [Precision::F32, Precision::fastest().of_activations()] {
        attention(bench, precision)?;
    }
    rows(bench)?;
    bench.section("losses from hidden states, with their gradient");
    for precision in [Precision::F32, Precision::fastest()] {
        linear_cross_entropy(bench, precision)?;
    }
    bench.section("adapters of rank 8");
    thin_products(bench)?;
    adamw(bench)
}

fn tensor<const N: usize>(shape: [usize; N]) -> Result<Tensor> {
    Tensor::new(values(shape.iter().product()), shape)
}

fn leaf<const N: usize>(shape: [usize; N]) -> Result<Tensor> {
    Ok(tensor(shape)?.tracked_leaf())
}

/// Times the gradients of the leaves below `y`.
fn back(bench: &Bench, name: &str, cost: Cost, y: &Tensor) -> Result<()> {
    let dy = Tensor::new(values(y.shape().elements()), y.shape().clone())?;
    bench.row(name, cost, || {
        backward(y.clone(), dy.clone(), &mut Grads::default())
    })
}

/// Of the products of queries with keys and of weights with values, only those at or below the diagonal count: two forward,
/// and five backward.
fn attention(bench: &Bench, precision: Precision) -> Result<()> {
    let q = leaf([TIME, HEADS, DIM])?;
    let (k, v) = (leaf([TIME, KV_HEADS, DIM])?, leaf([TIME, KV_HEADS, DIM])?);
    let starts = Tensor::of_u32(vec![0; TIME], [TIME])?;
    let settings = Attention {
        scale: 0.125,
        window: None,
        soft_cap: None,
        precision,
    };
    let pairs = TIME * (TIME + 1) / 2;
    let cost = |products: usize| Cost {
        operations: (products * 2 * HEADS * DIM * pairs) as f64,
        precision,
        ..Cost::values(4 * q.shape().elements())
    };
    let forward = || q.attention(&k, &v, &starts, settings);
    let name = format!("attention 512, 9 heads of 64, {}", precision.name());
    bench.row(&name, cost(2), || {
        black_box(forward()?);
        Ok(())
    })?;
    back(bench, &format!("{name}, backward"), cost(5), &forward()?)
}

fn rows(bench: &Bench) -> Result<()> {
    let x = leaf([TIME, WIDTH])?;
    let scale = tensor([WIDTH])?;
    let forward = || x.rms_norm(&scale, 1e-5);
    let size = TIME * WIDTH;
    bench.row("rms_norm 512x576", Cost::values(2 * size), || {
        black_box(forward()?);
        Ok(())
    })?;
    back(
        bench,
        "rms_norm, backward",
        Cost::values(3 * size),
        &forward()?,
    )?;

    let heads = leaf([TIME, HEADS, DIM])?;
    let positions = Tensor::of_u32((0..TIME as u32).collect(), [TIME])?;
    let turns = turns(&positions, &tensor([DIM / 2])?, 1.0)?;
    for pairs in [Pairs::Halves, Pairs::Interleaved] {
        let name = format!("rope 512x9x64 {pairs:?}");
        bench.row(&name, Cost::values(2 * size), || {
            black_box(heads.rope(&turns, pairs)?);
            Ok(())
        })?;
    }

    let (gate, up) = (leaf([TIME, HIDDEN])?, leaf([TIME, HIDDEN])?);
    let forward = || gate.gated(&up, Activation::Silu);
    let size = TIME * HIDDEN;
    bench.row("silu, gated 512x1536", Cost::values(3 * size), || {
        black_box(forward()?);
        Ok(())
    })?;
    back(
        bench,
        "silu, gated, backward",
        Cost::values(5 * size),
        &forward()?,
    )
}

/// Two products: the logits, and the gradient of the hidden states.
fn linear_cross_entropy(bench: &Bench, precision: Precision) -> Result<()> {
    let name = format!(
        "linear_cross_entropy 512x576, 49152 words {}",
        precision.name()
    );
    if !bench.wants(&name) {
        return Ok(());
    }
    let table = weight(Format::Q8_0, [VOCAB, WIDTH])?.with_precision(precision);
    let x = leaf([TIME, WIDTH])?;
    let targets = (0..TIME as u32).map(|row| row * 96).collect();
    let targets = Tensor::of_u32(targets, [TIME])?;
    let cost = Cost {
        operations: (2 * 2 * TIME * WIDTH * VOCAB) as f64,
        precision,
        bytes: table.bytes().len() as f64,
    };
    bench.row(&name, cost, || {
        black_box(x.linear_cross_entropy(&table, &targets, None, None)?);
        Ok(())
    })
}

/// y = W·x + B·(A·x): what the factors of one layer cost forward and backward.
fn thin_products(bench: &Bench) -> Result<()> {
    let x = tensor([TIME, WIDTH])?;
    let (a, b) = (tensor([RANK, WIDTH])?, tensor([HIDDEN, RANK])?);
    let (inner, dy) = (tensor([TIME, RANK])?, tensor([TIME, HIDDEN])?);
    type Product = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let products: [(&str, Product, [&Tensor; 2], [usize; 3]); 5] = [
        (
            "x·Aᵀ 512x576x8",
            Tensor::matmul_t,
            [&x, &a],
            [TIME, RANK, WIDTH],
        ),
        (
            "h·Bᵀ 512x8x1536",
            Tensor::matmul_t,
            [&inner, &b],
            [TIME, HIDDEN, RANK],
        ),
        (
            "dy·B 512x1536x8",
            Tensor::matmul,
            [&dy, &b],
            [TIME, RANK, HIDDEN],
        ),
        (
            "dyᵀ·h 1536x512x8",
            Tensor::t_matmul,
            [&dy, &inner],
            [HIDDEN, RANK, TIME],
        ),
        (
            "dhᵀ·x 8x512x576",
            Tensor::t_matmul,
            [&inner, &x],
            [RANK, WIDTH, TIME],
        ),
    ];
    for (name, product, [left, right], [m, n, k]) in products {
        bench.row(name, Cost::product(m, n, k), || {
            black_box(product(left, right)?);
            Ok(())
        })?;
    }
    let name = "y + h·Bᵀ 512x8x1536";
    let cost = Cost::product(TIME, HIDDEN, RANK);
    let bytes = cost.bytes + (4 * TIME * HIDDEN) as f64;
    bench.row(name, Cost { bytes, ..cost }, || {
        black_box(dy.add_matmul_t(&inner, &b)?);
        Ok(())
    })
}

/// An update of every parameter of a SmolLM2-135M. Value, gradient and both moments are read, all but the gradient written.
fn adamw(bench: &Bench) -> Result<()> {
    let name = "AdamW, all linear layers of SmolLM2-135M";
    if !bench.wants(name) {
        return Ok(());
    }
    let kv = KV_HEADS * DIM;
    let shapes = [
        ("self_attn.q_proj", [WIDTH, WIDTH]),
        ("self_attn.k_proj", [kv, WIDTH]),
        ("self_attn.v_proj", [kv, WIDTH]),
        ("self_attn.o_proj", [WIDTH, WIDTH]),
        ("mlp.gate_proj", [HIDDEN, WIDTH]),
        ("mlp.up_proj", [HIDDEN, WIDTH]),
        ("mlp.down_proj", [WIDTH, HIDDEN]),
    ];
    let adapter = Adapter::new(LoraConfig::default());
    let mut layers = Vec::new();
    for (module, shape) in shapes {
        let frozen = weight(Format::Q4_1, shape)?;
        for layer in 0..LAYERS {
            let path = format!("model.layers.{layer}.{module}");
            adapter.attach(&path, &frozen)?;
            let factors = adapter.factors(&path, &frozen, false)?;
            layers.push((path, frozen.clone(), [factors.a, factors.b]));
        }
    }
    let cost = Cost::values(7 * adapter.parameter_count());
    bench.row(name, cost, || {
        let mut grads = Grads::default();
        // An update makes new leaves; the first values serve as their gradients.
        for (path, frozen, [da, db]) in &layers {
            let factors = adapter.factors(path, frozen, true)?;
            grads.add(factors.a.id(), da.clone())?;
            grads.add(factors.b.id(), db.clone())?;
        }
        adapter.apply(Optimizer::adamw(0.0), 1e-4, 1.0, &grads)
    })
}
