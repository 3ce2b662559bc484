//! The decoder of `models` and `nn`, op by op, in sizes. What is added there belongs here too: tests compare with real runs.

use crate::exec::plan::Work;
use crate::exec::tape::{Op, Passes, Phantom, Tape};
use crate::lora::layer_of;
use crate::models::HEAD_BLOCK_VALUES;
use crate::ops::{BLOCK, slice_rows};

/// One layer's backward, or that of the head.
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

    fn passing(&self, inputs: &[&Phantom], channels: usize, passes: Passes) -> Phantom {
        let output = self.per_token(channels);
        let op = Op::of(output);
        self.tape.op(inputs, Op { passes, ..op })
    }

    /// `nn::Linear`.
    fn linear(&self, x: &Phantom, path: &str) -> Phantom {
        let Work { source, lora, .. } = self.work;
        let Some(site) = self.work.sites.iter().find(|site| site.path == path) else {
            return self.op(&[x], 0);
        };
        let (outputs, inputs, rank) = (site.outputs, site.inputs, lora.rank_of(path));
        let biased = |y: Phantom| match source.has(&format!("{path}.bias")) {
            true => self.passing(&[&y], outputs, Passes::Own),
            false => y,
        };
        let y = self.op(&[x], outputs);
        if !lora.targets_path(path) {
            return biased(y);
        }
        let dropped = (lora.dropout > 0.0).then(|| self.op(&[x], inputs));
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
        let low = times(dropped.as_ref().unwrap_or(x), inputs, rank);
        let low = times(&low, rank, outputs);
        if !lora.dora {
            let passes = match lora.scale_of(path) {
                1.0 => Passes::Own,
                _ => Passes::OwnAndFresh,
            };
            return self.passing(&[&biased(y), &low], outputs, passes);
        }
        let low = self.op(&[&low], outputs);
        let added = |y: &Phantom| {
            let sum = self.passing(&[y, &low], outputs, Passes::Own);
            self.op(&[&sum], outputs)
        };
        biased(match &dropped {
            None => added(&y),
            Some(dropped) => {
                let z = self.op(&[dropped], outputs);
                let sum = self.passing(&[&y, &added(&z)], outputs, Passes::Own);
                self.passing(&[&sum, &z], outputs, Passes::OwnAndFresh)
            }
        })
    }

    /// The most that replaying layer `index` and walking it back keeps beside its input and output.
    pub fn layer(self, index: usize) -> usize {
        let spec = self.work.spec;
        let path = |name: &str| format!("model.layers.{index}.{name}");
        let (width, hidden) = (spec.width, spec.mlp_hidden);
        let (queries, keys) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let x = self.tape.input(self.per_token(width));
        let dy = self.tape.block(self.per_token(width));

        let normed = self.op(&[&x], width);
        let [mut q, mut k, v] = match spec.fused {
            true => {
                let all = self.linear(&normed, &path("self_attn.qkv_proj"));
                [queries, keys, keys].map(|channels| self.op(&[&all], channels))
            }
            false => ["q_proj", "k_proj", "v_proj"]
                .map(|name| self.linear(&normed, &path(&format!("self_attn.{name}")))),
        };
        drop(normed);
        if spec.head_norm {
            (q, k) = (self.op(&[&q], queries), self.op(&[&k], keys));
        }
        (q, k) = (self.op(&[&q], queries), self.op(&[&k], keys));
        let attention = Op {
            saved: self.per_token(spec.heads),
            // Every query head computes its part by itself: outputs forward; dq, dk and dv backward.
            working: [self.per_token(queries), 3 * self.per_token(queries)],
            ..Op::of(self.per_token(queries))
        };
        let y = self.tape.op(&[&q, &k, &v], attention);
        drop((q, k, v));
        let mut added = self.linear(&y, &path("self_attn.o_proj"));
        drop(y);
        if spec.sandwich_norms {
            added = self.op(&[&added], width);
        }
        let middle = self.passing(&[&x, &added], width, Passes::Own);
        let normed = self.op(&[&middle], width);
        let [gate, up] = match spec.fused {
            true => {
                let both = self.linear(&normed, &path("mlp.gate_up_proj"));
                [hidden, hidden].map(|channels| self.op(&[&both], channels))
            }
            false => ["gate_proj", "up_proj"]
                .map(|name| self.linear(&normed, &path(&format!("mlp.{name}")))),
        };
        drop(normed);
        let gated = self.op(&[&gate, &up], hidden);
        drop((gate, up));
        added = self.linear(&gated, &path("mlp.down_proj"));
        drop(gated);
        if spec.sandwich_norms {
            added = self.op(&[&added], width);
        }
        let y = self.passing(&[&middle, &added], width, Passes::Own);
        drop((x, middle, added));
        self.tape.backward(y, dy.clone());
        self.tape.peak()
    }

    /// The most that the last norm, the logits and the loss keep beside their input.
    pub fn head(mut self) -> usize {
        let Work {
            spec, lora, vocab, ..
        } = *self.work;
        let stream = self.per_token(spec.width);
        let biased = self.work.source.has("lm_head.bias");
        if !self.work.tied && (lora.targets_path("lm_head") || biased) {
            // `models::Head`: the normed stream and its gradient, and a block of tokens walked forth and back.
            self.tokens = self.tokens.min((HEAD_BLOCK_VALUES / vocab).max(1));
            let x = self.tape.input(self.per_token(spec.width));
            let mut logits = self.linear(&x, "lm_head");
            if spec.logit_cap.is_some() {
                logits = self.op(&[&logits], vocab);
            }
            let y = self.op(&[&logits], 1);
            drop((x, logits));
            self.tape.backward(y, self.tape.block(self.per_token(1)));
            return 2 * stream + self.tape.peak();
        }
        let x = self.tape.input(stream);
        let normed = self.op(&[&x], spec.width);
        // The rows with a target, their gradient, and the logits of a slice of the vocabulary.
        let slice = slice_rows(self.tokens).min(vocab);
        let losses = Op {
            saved: stream,
            working: [self.per_token(2 * spec.width + slice), 0],
            ..Op::of(self.per_token(1))
        };
        let y = self.tape.op(&[&normed], losses);
        drop((x, normed));
        self.tape.backward(y, self.tape.block(self.per_token(1)));
        self.tape.peak()
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
