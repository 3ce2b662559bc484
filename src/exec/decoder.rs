//! The decoder of `models` and `nn`, op by op, in sizes. What is added there belongs here too: tests compare with real runs.

use std::ops::Range;

use crate::exec::plan::Work;
use crate::exec::tape::{Keeps, Op, Passes, Phantom, Tape};
use crate::lora::layer_of;
use crate::models::block_tokens;
use crate::ops::{BLOCK, slice_rows};

/// A part of a model and its backward.
pub struct Walk<'a> {
    work: &'a Work<'a>,
    tokens: usize,
    tape: Tape,
}

impl<'a> Walk<'a> {
    pub fn new(work: &'a Work<'a>) -> Self {
        Walk {
            work,
            tokens: work.tokens,
            tape: Tape::default(),
        }
    }

    /// f32 values for every token.
    fn per_token(&self, channels: usize) -> usize {
        self.tokens * channels * 4
    }

    fn op(&self, inputs: &[&Phantom], channels: usize) -> Phantom {
        self.tape.op(inputs, Op::of(self.per_token(channels)))
    }

    /// An op that reads its inputs for its gradient and runs again for those that read its output.
    fn again(&self, inputs: &[&Phantom], channels: usize) -> Phantom {
        let again = true;
        let op = Op::of(self.per_token(channels));
        self.tape.op(inputs, Op { again, ..op })
    }

    /// An op whose gradient needs no values.
    fn forgetful(&self, inputs: &[&Phantom], channels: usize, passes: Passes) -> Phantom {
        let op = Op {
            passes,
            keeps: Keeps::Nothing,
            ..Op::of(self.per_token(channels))
        };
        self.tape.op(inputs, op)
    }

    fn keeping(&self, inputs: &[&Phantom], channels: usize, keeps: Keeps) -> Phantom {
        let op = Op {
            keeps,
            ..Op::of(self.per_token(channels))
        };
        self.tape.op(inputs, op)
    }

    /// `nn::Linear`.
    fn linear(&self, x: &Phantom, path: &str) -> Phantom {
        let Work { source, lora, .. } = self.work;
        let Some(site) = self.work.sites.iter().find(|site| site.path == path) else {
            return self.forgetful(&[x], 0, Passes::Fresh);
        };
        let (outputs, inputs, rank) = (site.outputs, site.inputs, lora.rank_of(path));
        let biased = |y: Phantom| match source.has(&format!("{path}.bias")) {
            true => self.forgetful(&[&y], outputs, Passes::Own),
            false => y,
        };
        let y = self.forgetful(&[x], outputs, Passes::Fresh);
        if !lora.targets_path(path) {
            return biased(y);
        }
        let dropped = (lora.dropout > 0.0).then(|| self.forgetful(&[x], inputs, Passes::Fresh));
        let times = |x: &Phantom, from: usize, to: usize| {
            let output = Op::of(self.per_token(to));
            let parameter = from * to * 4;
            self.tape.op(
                &[x],
                Op {
                    parameter,
                    ..output
                },
            )
        };
        let mut low = times(dropped.as_ref().unwrap_or(x), inputs, rank);
        if lora.scale_of(path) != 1.0 {
            low = self.forgetful(&[&low], rank, Passes::Fresh);
        }
        if !lora.dora {
            let op = Op {
                parameter: rank * outputs * 4,
                passes: Passes::OwnAndFresh,
                keeps: Keeps::LastInput,
                ..Op::of(self.per_token(outputs))
            };
            return self.tape.op(&[&biased(y), &low], op);
        }
        let low = times(&low, rank, outputs);
        let added = |y: &Phantom| {
            let sum = self.forgetful(&[y, &low], outputs, Passes::Own);
            self.op(&[&sum], outputs)
        };
        biased(match &dropped {
            None => added(&y),
            Some(dropped) => {
                let z = self.forgetful(&[dropped], outputs, Passes::Fresh);
                let sum = self.forgetful(&[&y, &added(&z)], outputs, Passes::Own);
                self.forgetful(&[&sum, &z], outputs, Passes::OwnAndFresh)
            }
        })
    }

    /// A decoder layer.
    fn forward(&self, x: &Phantom, index: usize) -> Phantom {
        let spec = self.work.spec;
        let path = |name: &str| format!("model.layers.{index}.{name}");
        let (width, hidden) = (spec.width, spec.mlp_hidden);
        let (queries, keys) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let normed = self.again(&[x], width);
        let [mut q, mut k, v] = match spec.fused {
            true => {
                let all = self.linear(&normed, &path("self_attn.qkv_proj"));
                [queries, keys, keys]
                    .map(|channels| self.forgetful(&[&all], channels, Passes::Fresh))
            }
            false => ["q_proj", "k_proj", "v_proj"]
                .map(|name| self.linear(&normed, &path(&format!("self_attn.{name}")))),
        };
        if spec.head_norm {
            (q, k) = (self.again(&[&q], queries), self.again(&[&k], keys));
        }
        q = self.forgetful(&[&q], queries, Passes::Fresh);
        k = self.forgetful(&[&k], keys, Passes::Fresh);
        let attention = Op {
            saved: self.per_token(spec.heads),
            // Keys and values laid out, keys twice backward; there the two parts of each query head have dk and dv of the keys
            // they see.
            working: [
                2 * self.per_token(keys),
                3 * self.per_token(keys) + 7 * self.per_token(queries) / 2,
            ],
            keeps: Keeps::InputsAndOutput,
            ..Op::of(self.per_token(queries))
        };
        let y = self.tape.op(&[&q, &k, &v], attention);
        drop((q, k, v));
        let mut added = self.linear(&y, &path("self_attn.o_proj"));
        drop((y, normed));
        if spec.sandwich_norms {
            added = self.again(&[&added], width);
        }
        let middle = self.forgetful(&[x, &added], width, Passes::Own);
        drop(added);
        let normed = self.again(&[&middle], width);
        let [gate, up] = match spec.fused {
            true => {
                let both = self.linear(&normed, &path("mlp.gate_up_proj"));
                [hidden, hidden].map(|channels| self.forgetful(&[&both], channels, Passes::Fresh))
            }
            false => ["gate_proj", "up_proj"]
                .map(|name| self.linear(&normed, &path(&format!("mlp.{name}")))),
        };
        let gated = self.again(&[&gate, &up], hidden);
        let mut added = self.linear(&gated, &path("mlp.down_proj"));
        drop((normed, gate, up, gated));
        if spec.sandwich_norms {
            added = self.again(&[&added], width);
        }
        self.forgetful(&[&middle, &added], width, Passes::Own)
    }

    /// The most that replaying these layers at once and walking them back keeps beside the input and the output.
    pub fn unit(self, layers: Range<usize>) -> usize {
        let mut x = self.tape.input(self.per_token(self.work.spec.width));
        let dy = self.tape.block(self.per_token(self.work.spec.width));
        for index in layers {
            x = self.forward(&x, index);
        }
        self.tape.backward(x, dy.clone());
        self.tape.peak()
    }

    /// The most that the layers from `first` on and the head keep when all of it stays for one backward, gradients included.
    pub fn whole(self, first: usize) -> usize {
        let mut x = self
            .tape
            .op(&[], Op::of(self.per_token(self.work.spec.width)));
        for index in first..self.work.spec.layers.len() {
            x = self.forward(&x, index);
        }
        let y = self.losses(&x);
        drop(x);
        self.tape.backward(y, self.tape.block(self.per_token(1)));
        self.tape.peak()
    }

    /// The most that the last norm, the logits and the loss keep beside their input.
    pub fn head(self) -> usize {
        let x = self.tape.input(self.per_token(self.work.spec.width));
        let y = self.losses(&x);
        drop(x);
        self.tape.backward(y, self.tape.block(self.per_token(1)));
        self.tape.peak()
    }

    /// The last norm, the logits and the loss of every token.
    fn losses(&self, x: &Phantom) -> Phantom {
        let Work {
            spec, lora, vocab, ..
        } = *self.work;
        let stream = self.per_token(spec.width);
        let biased = self.work.source.has("lm_head.bias");
        let normed = self.again(&[x], spec.width);
        let op = Op::of(self.per_token(1));
        if !self.work.tied && (lora.targets_path("lm_head") || biased) {
            let block = self.head_block();
            let working = [block, block + stream];
            return self.tape.op(&[&normed], Op { working, ..op });
        }
        // The rows with a target, their gradient, and the logits of a slice of the vocabulary.
        let slice = slice_rows(self.work.vocab_slice, self.tokens).min(vocab);
        let losses = Op {
            saved: stream,
            working: [self.per_token(2 * spec.width + slice), 0],
            keeps: Keeps::Nothing,
            ..op
        };
        self.tape.op(&[&normed], losses)
    }

    /// `models::Head`: a block of tokens walked forth and back.
    fn head_block(&self) -> usize {
        let Work { spec, vocab, .. } = *self.work;
        let block = Walk {
            work: self.work,
            tokens: block_tokens(self.tokens, vocab, self.work.vocab_slice),
            tape: Tape::default(),
        };
        let x = block.tape.input(block.per_token(spec.width));
        let mut logits = block.linear(&x, "lm_head");
        if spec.logit_cap.is_some() {
            logits = block.keeping(&[&logits], vocab, Keeps::Output);
        }
        let y = block.op(&[&logits], 1);
        drop((x, logits));
        let dy = block.tape.block(block.per_token(1));
        block.tape.backward(y, dy);
        block.tape.peak()
    }
}

/// Bytes of trainable values in each layer, the last for those outside of all layers.
pub fn trained_bytes(work: &Work) -> Vec<usize> {
    let layers = work.spec.layers.len();
    let mut bytes = vec![0; layers + 1];
    let targeted = |path: &str| work.lora.targets_path(path);
    for site in work.sites.iter().filter(|site| targeted(&site.path)) {
        let magnitudes = if work.lora.dora { site.outputs } else { 0 };
        let values = work.lora.rank_of(&site.path) * (site.inputs + site.outputs) + magnitudes;
        bytes[layer_of(&site.path).map_or(layers, |layer| layer.min(layers))] += values * 4;
    }
    bytes
}

/// Scores, their gradient and their packed copy, which a thread keeps for a block of queries.
pub fn score_bytes(tokens: usize) -> usize {
    3 * BLOCK * tokens * 4
}
