//! Every way of saving memory against the plain one, which keeps the whole graph and all logits, at 256 to 2048 tokens.

use super::*;
use crate::autograd::backward;
use crate::backend::cpu::product::Precision;
use crate::format::Checkpoint;
use crate::lora::{Adapter, LoraConfig, Optimizer, Targets};
use crate::nn::{Layout, Source};
use crate::ops::check::{close, flat, random, weight};
use crate::ops::{Attention, IGNORED};
use crate::quant::{Format, Weight};
use crate::tensor::{Random, Rows};

const LENGTHS: [usize; 4] = [256, 512, 1024, 2048];

/// Two slices of the vocabulary, and three blocks of logits at 2048 tokens.
const VOCAB: usize = 9001;

/// A fixture's model with so large a vocabulary.
struct Wide(Arc<dyn Source>);

impl Source for Wide {
    fn weight(&self, name: &str) -> Result<Weight> {
        let own = self.0.weight(name)?;
        match name {
            "model.embed_tokens.weight" | "lm_head.weight" => {
                Ok(weight(Format::F16, VOCAB, own.shape().last()))
            }
            _ => Ok(own),
        }
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

/// The fixture `case` with an adapter of which no part is zero.
fn model(case: &str, targets: &str, dora: bool) -> (Decoder, Arc<Adapter>) {
    let path = format!(
        "{}/__test__/fixtures/models/{case}",
        env!("CARGO_MANIFEST_DIR")
    );
    let checkpoint = Checkpoint::open(path.as_ref()).unwrap();
    let adapter = Adapter::new(LoraConfig {
        rank: 2,
        dropout: 0.2,
        dora,
        targets: Targets::parse(targets).unwrap(),
        ..LoraConfig::default()
    });
    let source = Arc::new(Wide(checkpoint.source()));
    let loader = Loader::new(source, Some(adapter.clone()));
    let model = Decoder::load(checkpoint.config(), &loader).unwrap();
    let first = computed(&model, &adapter, &[64], Decoder::losses).2;
    adapter
        .apply(Optimizer::adamw(0.0), 0.05, 1.0, &first)
        .unwrap();
    (model, adapter)
}

type Losses = fn(&Decoder, &Tensor, &Tensor, &Ctx) -> Result<Tensor>;

/// Losses with the graph of every layer kept, and the logits of all tokens at once.
fn plain(model: &Decoder, ids: &Tensor, targets: &Tensor, ctx: &Ctx) -> Result<Tensor> {
    let mut x = model
        .embedding
        .forward(std::slice::from_ref(ids), ctx)?
        .remove(0);
    for layer in &model.layers {
        x = layer.forward(&[x], ctx)?.remove(0);
    }
    let hidden = model.norm.forward(&x)?;
    model.project(&hidden, ctx)?.cross_entropy(targets)
}

/// Losses and gradients of samples of these lengths in one row; every 16th token is not learned.
fn computed(
    model: &Decoder,
    adapter: &Adapter,
    lengths: &[usize],
    losses: Losses,
) -> (Vec<f64>, Vec<Vec<f64>>, Grads) {
    let numbered: Vec<_> = (0..).zip(lengths.iter().copied()).collect();
    let mut grads = Grads::default();
    let losses = pass(model, &numbered, losses, &mut grads);
    let gradients = gradients(adapter, &grads);
    (losses, gradients, grads)
}

fn pass(model: &Decoder, samples: &[(u32, usize)], losses: Losses, grads: &mut Grads) -> Vec<f64> {
    let text = |&(number, length): &(u32, usize)| {
        let random = Random::new(5).fork(number.into());
        (0..length as u64).map(move |at| random.bits(at) as u32 % VOCAB as u32)
    };
    let ids: Vec<u32> = samples.iter().flat_map(text).collect();
    let target = |(at, id): (usize, &u32)| if at % 16 == 3 { IGNORED } else { *id };
    let targets: Vec<u32> = ids.iter().enumerate().map(target).collect();
    let time = ids.len();
    let ctx = Ctx::train(Rows::of_samples(samples).unwrap(), 3, 7);
    let (ids, targets) = (Tensor::of_u32(ids, [time]), Tensor::of_u32(targets, [time]));
    let losses = losses(model, &ids.unwrap(), &targets.unwrap(), &ctx).unwrap();
    let dy = Tensor::new(vec![1.0 / 256.0; time], [time]).unwrap();
    let values = flat(&losses);
    backward(losses, dy, grads).unwrap();
    values
}

fn gradients(adapter: &Adapter, grads: &Grads) -> Vec<Vec<f64>> {
    let mut all = Vec::new();
    let each = |parameter: crate::lora::ParameterView| {
        all.push(flat(grads.get(parameter.value).unwrap()));
        Ok(())
    };
    adapter.each_parameter(each).unwrap();
    all
}

/// Demands that two vectors are apart by no more than f32 sums in another order are: 1e-4 of their length.
fn near(what: &str, ours: &[f64], expected: &[f64]) {
    let length = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let apart = length(&mut ours.iter().zip(expected).map(|(a, b)| a - b));
    let size = length(&mut expected.iter().copied());
    assert!(size > 1e-6, "{what}: nothing to compare");
    assert!(apart < 1e-4 * size, "{what}: {:.1e} apart", apart / size);
}

fn saves_memory_only(case: &str, targets: &str, dora: bool) {
    let (model, adapter) = model(case, targets, dora);
    for length in LENGTHS {
        let saving = computed(&model, &adapter, &[length], Decoder::losses);
        let whole = computed(&model, &adapter, &[length], plain);
        let what = format!("{case} with {length} tokens");
        near(&format!("{what}: losses"), &saving.0, &whole.0);
        assert_eq!(saving.1.len(), whole.1.len());
        for (index, (ours, expected)) in saving.1.iter().zip(&whole.1).enumerate() {
            near(&format!("{what}: gradient {index}"), ours, expected);
        }
    }
}

#[test]
fn replayed_layers_and_slices_of_the_vocabulary_give_the_plain_losses_and_gradients() {
    saves_memory_only("llama_linear", "all-linear", false);
}

#[test]
fn windows_and_capped_logits_in_slices_give_the_plain_losses_and_gradients() {
    saves_memory_only("gemma2", "q_proj,down_proj", true);
}

#[test]
fn a_learning_head_in_blocks_gives_the_plain_losses_and_gradients() {
    saves_memory_only("llama_linear", "lm_head,v_proj", false);
}

#[test]
fn samples_packed_into_a_row_give_their_plain_losses_and_gradients() {
    let (model, adapter) = model("gemma2", "all-linear", false);
    for length in LENGTHS {
        let lengths = [length / 2 - 48, 16, length / 4, length / 4 + 32];
        let packed = computed(&model, &adapter, &lengths, Decoder::losses);
        let (mut losses, mut grads) = (Vec::new(), Grads::default());
        for (number, &length) in lengths.iter().enumerate() {
            losses.extend(pass(&model, &[(number as u32, length)], plain, &mut grads));
        }
        near(&format!("losses of {length}"), &packed.0, &losses);
        let alone = gradients(&adapter, &grads);
        for (index, (ours, expected)) in packed.1.iter().zip(&alone).enumerate() {
            near(&format!("gradient {index} of {length}"), ours, expected);
        }
    }
}

/// One head: y = softmax(q·kᵀ/√2)·v, and with p the weights of a query, dv = p·dy, ds = p·(dy·v − dy·y), dq = ds·k/√2 and
/// dk = ds·q/√2. Returns y, dq, dk, dv for dy = 1.
fn attention_in_f64(q: &[f64], k: &[f64], v: &[f64]) -> [Vec<f64>; 4] {
    let scale = 0.5_f64.sqrt();
    let mut out = [(); 4].map(|()| vec![0.0; q.len()]);
    let [y, dq, dk, dv] = &mut out;
    for query in 0..q.len() / 2 {
        let q = &q[2 * query..][..2];
        let score = |key: usize| scale * (q[0] * k[2 * key] + q[1] * k[2 * key + 1]);
        let weights: Vec<f64> = (0..=query).map(|key| score(key).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for (key, weight) in weights.iter().enumerate() {
            (0..2).for_each(|c| y[2 * query + c] += weight / sum * v[2 * key + c]);
        }
        let total = y[2 * query] + y[2 * query + 1];
        for (key, weight) in weights.iter().enumerate() {
            let p = weight / sum;
            let ds = scale * p * (v[2 * key] + v[2 * key + 1] - total);
            for c in 0..2 {
                dv[2 * key + c] += p;
                dq[2 * query + c] += ds * k[2 * key + c];
                dk[2 * key + c] += ds * q[c];
            }
        }
    }
    out
}

#[test]
fn attention_in_blocks_follows_the_formula_and_its_gradients_at_every_length() {
    for length in LENGTHS {
        let all = random([3 * length, 1, 2]);
        let part = |index: usize| all.span(2 * length * index, [length, 1, 2]).unwrap();
        let [q, k, v] = [0, 1, 2].map(|index| part(index).tracked_leaf());
        let starts = Tensor::of_u32(vec![0; length], [length]).unwrap();
        let plain = Attention {
            scale: 0.5_f32.sqrt(),
            window: None,
            soft_cap: None,
            precision: Precision::F32,
        };
        let y = q.attention(&k, &v, &starts, plain).unwrap();
        let expected = attention_in_f64(&flat(&q), &flat(&k), &flat(&v));
        close("y", y.values().unwrap(), &expected[0]);
        let grads = crate::ops::check::gradients(&y, &vec![1.0; 2 * length]);
        for (leaf, expected) in [&q, &k, &v].into_iter().zip(&expected[1..]) {
            let gradient = grads.get(leaf).unwrap();
            close("gradient", gradient.values().unwrap(), expected);
        }
    }
}
