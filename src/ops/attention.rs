//! Scaled dot-product attention by blocks of queries: softmax(scale·q·kᵀ + mask)·v, never [time, time] in memory.
//! Vaswani et al. 2017, arXiv:1706.03762, eq. 1; blocks and the saved log-sum-exp as in Dao 2023, arXiv:2307.08691.

use std::ops::Range;

use rayon::prelude::*;

use crate::backend::cpu::{View, exp, matmul, max, replace_and_sum, tanh};
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Tensor, apply};

/// Queries handled together by one thread.
const BLOCK: usize = 64;

/// Which keys a query sees and how scores are shaped. Always causal: a token sees itself and what came before it.
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// Multiplies q·k, usually 1/√dim.
    pub scale: f32,
    /// A token sees this many tokens including itself; `None` for all.
    pub window: Option<usize>,
    /// Scores pass through cap·tanh(score/cap).
    pub soft_cap: Option<f32>,
}

impl Tensor {
    /// self: queries [time, heads, dim]; `k`, `v`: [keys, kv_heads, dim], heads a multiple of kv_heads; `starts`: u32
    /// [time], the first key each query may see. The queries are the last `time` of the keys. Gives [time, heads, dim].
    pub fn attention(
        &self,
        k: &Tensor,
        v: &Tensor,
        starts: &Tensor,
        attention: Attention,
    ) -> Result<Tensor> {
        apply(attention, &[self, k, v, starts])
    }
}

/// Lengths of the axes of an attention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub time: usize,
    pub heads: usize,
    pub dim: usize,
    pub keys: usize,
    pub kv_heads: usize,
}

impl Sizes {
    pub fn of(q: &Shape, k: &Shape) -> Sizes {
        Sizes {
            time: q[0],
            heads: q[1],
            dim: q[2],
            keys: k[0],
            kv_heads: k[1],
        }
    }

    /// The key/value head that serves query head `head`.
    pub fn kv_head(&self, head: usize) -> usize {
        head / (self.heads / self.kv_heads)
    }

    /// Head `head` of rows from `time` on, in [time, heads, dim].
    pub fn head<'a>(&self, values: &'a [f32], heads: usize, time: usize, head: usize) -> View<'a> {
        View {
            values: &values[(time * heads + head) * self.dim..],
            row_stride: heads * self.dim,
            column_stride: 1,
        }
    }

    /// Blocks of queries, as ranges of time.
    pub fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let time = self.time;
        (0..time)
            .step_by(BLOCK)
            .map(move |first| first..(first + BLOCK).min(time))
    }
}

impl Attention {
    /// The keys query `time` sees.
    pub(super) fn visible(&self, sizes: &Sizes, starts: &[u32], time: usize) -> Range<usize> {
        let end = time + sizes.keys - sizes.time + 1;
        let in_window = self.window.map_or(0, |window| end.saturating_sub(window));
        (starts[time] as usize).max(in_window)..end
    }

    /// The keys any query of `block` sees.
    pub(super) fn visible_to(
        &self,
        sizes: &Sizes,
        starts: &[u32],
        block: &Range<usize>,
    ) -> Range<usize> {
        let ranges = block.clone().map(|time| self.visible(sizes, starts, time));
        ranges.fold(sizes.keys..0, |all, one| {
            all.start.min(one.start)..all.end.max(one.end)
        })
    }

    /// scores[block, keys] = scale·q·kᵀ, soft-capped; no mask yet.
    pub(super) fn scores(
        &self,
        (m, n, k): (usize, usize, usize),
        q: View,
        key: View,
        scores: &mut Vec<f32>,
    ) {
        scores.resize(m * n, 0.0);
        matmul(
            (m, n, k),
            self.scale,
            q,
            key.transposed(),
            0.0,
            scores,
            n,
            1,
        );
        if let Some(cap) = self.soft_cap {
            scores
                .iter_mut()
                .for_each(|score| *score = cap * tanh(*score / cap));
        }
    }
}

impl Op for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let (q, k, v, starts) = (x[0].shape(), x[1].shape(), x[2].shape(), x[3].shape());
        let fits = q.len() == 3
            && k.len() == 3
            && v == k
            && q[2] == k[2]
            && q[0] <= k[0]
            && k[1] > 0
            && q[1].is_multiple_of(k[1])
            && starts[..] == q[..1];
        if !fits {
            bail!(
                Internal,
                "attention: q {q} must be [time, heads, dim], k {k} and v {v} [keys, kv_heads, dim], starts {starts} [time]"
            );
        }
        Ok(q.clone())
    }

    /// Saves the log-sum-exp of each row of scores, [heads, time].
    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (q, k, v, starts) = (x[0].values()?, x[1].values()?, x[2].values()?, x[3].ids()?);
        let sizes = Sizes::of(x[0].shape(), x[1].shape());
        let Sizes {
            time, heads, dim, ..
        } = sizes;
        let one = |block: Range<usize>, head: usize| {
            let seen = self.visible_to(&sizes, starts, &block);
            let query = sizes.head(q, heads, block.start, head);
            let kv_head = sizes.kv_head(head);
            let key = sizes.head(k, sizes.kv_heads, seen.start, kv_head);
            let value = sizes.head(v, sizes.kv_heads, seen.start, kv_head);
            let mut scores = Vec::new();
            self.scores((block.len(), seen.len(), dim), query, key, &mut scores);
            let mut log_sums = vec![0.0; block.len()];
            for (time, (row, log_sum)) in block
                .clone()
                .zip(scores.chunks_mut(seen.len()).zip(&mut log_sums))
            {
                let own = self.visible(&sizes, starts, time);
                *log_sum = softmax(row, own.start - seen.start..own.end - seen.start);
            }
            let mut out = vec![0.0; block.len() * dim];
            let size = (block.len(), dim, seen.len());
            matmul(
                size,
                1.0,
                View::rows(&scores, seen.len()),
                value,
                0.0,
                &mut out,
                dim,
                1,
            );
            (out, log_sums)
        };
        let tasks: Vec<(Range<usize>, usize)> = sizes
            .blocks()
            .flat_map(|block| (0..heads).map(move |head| (block.clone(), head)))
            .collect();
        let parts: Vec<_> = tasks
            .par_iter()
            .map(|(block, head)| one(block.clone(), *head))
            .collect();
        let mut saved = vec![0.0; heads * time];
        for ((block, head), (out, log_sums)) in tasks.into_iter().zip(parts) {
            for (at, row) in block.clone().zip(out.chunks(dim)) {
                y[(at * heads + head) * dim..][..dim].copy_from_slice(row);
            }
            saved[head * time + block.start..][..block.len()].copy_from_slice(&log_sums);
        }
        Ok(Some(Tensor::new(saved, [heads, time])?))
    }

    fn vjp(
        &self,
        x: &[Tensor],
        _wanted: &[bool],
        y: &Tensor,
        saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let Some(log_sums) = saved else {
            bail!(Internal, "attention: the forward pass saved no log-sum-exp");
        };
        let [dq, dk, dv] = self.gradients(x, y, log_sums, dy)?;
        Ok(vec![Some(dq), Some(dk), Some(dv), None])
    }
}

/// Turns the scores `row[seen]` into probabilities and the rest into zeros; returns the log-sum-exp.
fn softmax(row: &mut [f32], seen: Range<usize>) -> f32 {
    row[..seen.start].fill(0.0);
    row[seen.end..].fill(0.0);
    let row = &mut row[seen];
    let max = max(row);
    let sum = replace_and_sum(row, |score| {
        let p = exp(score - max);
        (p, p)
    });
    row.iter_mut().for_each(|p| *p /= sum);
    max + sum.ln()
}
