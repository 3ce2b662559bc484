//! The gradient of attention. Scores are computed again from q, k and the saved log-sum-exp L, block by block:
//!   P = exp(S − L),  dV = Pᵀ·dO,  dP = dO·Vᵀ,  dS = scale·P·(dP − rowsum(dO·O)),  dQ = dS·K,  dK = dSᵀ·Q.
//! Dao 2023, arXiv:2307.08691, algorithm 2.

use std::ops::Range;

use rayon::prelude::*;

use crate::backend::Buffer;
use crate::backend::cpu::product::Kernel;
use crate::backend::cpu::{Old, Room, Strips, View, dot, for_rows_of_two, matmul};
use crate::error::Result;
use crate::ops::Attention;
use crate::ops::attention_layout::{BLOCK, Sizes};
use crate::ops::attention_scores::{Scores, score_gradient};
use crate::tensor::Tensor;

/// The queries of a head are walked in two parts, for threads to share: of the pairs that a causal mask leaves, half lie
/// before this share of the time.
const HALF_OF_PAIRS: f32 = std::f32::consts::FRAC_1_SQRT_2;

impl Attention {
    /// dq, dk, dv. `x` is [q, k, v, starts], `log_sums` [heads, time].
    pub(super) fn gradients(
        &self,
        x: &[Tensor],
        y: &Tensor,
        log_sums: &Tensor,
        dy: &Tensor,
    ) -> Result<[Tensor; 3]> {
        let sizes = Sizes::of(x[0].shape(), x[1].shape());
        let Sizes {
            keys,
            kv_heads,
            dim,
            ..
        } = sizes;
        let mut dq = Buffer::stale(sizes.time * sizes.heads * dim);
        let [mut dk, mut dv] = [(); 2].map(|()| Buffer::zeros(keys * kv_heads * dim));
        if sizes.time > 0 {
            let walk = Walk::new(*self, sizes, x, y, log_sums, dy)?;
            let parts = walk.parts(&mut dq);
            let per_kv_head = parts.len() / kv_heads;
            for_rows_of_two(&mut dk, &mut dv, dim, |row, dk, dv| {
                let (key, kv_head) = (row / kv_heads, row % kv_heads);
                // In the order of heads and times, whatever thread computed them.
                for part in &parts[kv_head * per_kv_head..][..per_kv_head] {
                    add_row(dk, &part.dk, key);
                    add_row(dv, &part.dv, key);
                }
            });
        }
        Ok([
            Tensor::of(dq, x[0].shape().clone())?,
            Tensor::of(dk, x[1].shape().clone())?,
            Tensor::of(dv, x[2].shape().clone())?,
        ])
    }
}

/// Adds row `row` of `part`, if it has one.
fn add_row(all: &mut [f32], part: &[f32], row: usize) {
    let part = part.chunks_exact(all.len()).nth(row);
    for (all, part) in all.iter_mut().zip(part.unwrap_or(&[])) {
        *all += part;
    }
}

/// What a part of the queries of a head contributes to dk and dv of the keys from the first on, [.., dim].
struct PartGradient {
    dk: Buffer,
    dv: Buffer,
}

struct Walk<'a> {
    attention: Attention,
    kernel: &'static Kernel,
    sizes: Sizes,
    q: &'a [f32],
    starts: &'a [u32],
    y: &'a [f32],
    log_sums: &'a [f32],
    dy: &'a [f32],
    /// For each key/value head, as right operands: keys and values [dim, keys], and keys [keys, dim].
    laid_out: Vec<Strips>,
}

impl<'a> Walk<'a> {
    fn new(
        attention: Attention,
        sizes: Sizes,
        x: &'a [Tensor],
        y: &'a Tensor,
        log_sums: &'a Tensor,
        dy: &'a Tensor,
    ) -> Result<Walk<'a>> {
        let kernel = Kernel::of(attention.precision)?;
        let (k, v) = (x[1].values()?, x[2].values()?);
        let by_channel = (sizes.dim, sizes.keys);
        let lay_out = |task: usize| {
            let (k, v) = (sizes.kv(k, task / 3), sizes.kv(v, task / 3));
            match task % 3 {
                0 => Strips::of(kernel, by_channel, k.transposed()),
                1 => Strips::of(kernel, by_channel, v.transposed()),
                _ => Strips::of(kernel, (sizes.keys, sizes.dim), k),
            }
        };
        Ok(Walk {
            attention,
            kernel,
            sizes,
            q: x[0].values()?,
            starts: x[3].ids()?,
            y: y.values()?,
            log_sums: log_sums.values()?,
            dy: dy.values()?,
            laid_out: (0..3 * sizes.kv_heads)
                .into_par_iter()
                .map(lay_out)
                .collect(),
        })
    }

    /// Writes `dq` and gives what the parts of every head contribute to dk and dv. [heads, parts]
    fn parts(&self, dq: &mut [f32]) -> Vec<PartGradient> {
        let blocks = self.sizes.blocks();
        let middle = (blocks as f32 * HALF_OF_PAIRS).round() as usize;
        let mut blocks_of_dq = self.sizes.by_head_and_block(dq).into_iter();
        let mut tasks = Vec::new();
        for head in 0..self.sizes.heads {
            for part in [0..middle, middle..blocks] {
                let dq: Vec<_> = blocks_of_dq.by_ref().take(part.len()).collect();
                tasks.push((head, part, dq));
            }
        }
        tasks
            .into_par_iter()
            .with_max_len(1)
            .map_init(Room::default, |room, (head, blocks, dq)| {
                self.part(head, blocks, dq, room)
            })
            .collect()
    }

    /// Some blocks of the queries of a head; `dq` has the rows of each.
    fn part(
        &self,
        head: usize,
        blocks: Range<usize>,
        dq: Vec<Vec<&mut [f32]>>,
        room: &mut Room,
    ) -> PartGradient {
        let (sizes, dim) = (&self.sizes, self.sizes.dim);
        let [keys, values, rows_of_keys] = &self.laid_out[3 * sizes.kv_head(head)..][..3] else {
            unreachable!("three of each head")
        };
        let scores = Scores {
            sizes,
            q: self.q,
            head,
            keys,
        };
        let seen = |block: usize| {
            let block = sizes.block(block);
            let seen = self
                .attention
                .visible_to(self.kernel, sizes, self.starts, &block);
            (block, seen)
        };
        let end = blocks
            .clone()
            .map(|block| seen(block).1.end)
            .max()
            .unwrap_or(0);
        let [mut dk, mut dv] = [(); 2].map(|()| Buffer::zeros(end * dim));
        let [mut p, mut dp] = [(); 2].map(|()| Buffer::stale(BLOCK.min(sizes.time) * end));
        let mut dq_block = Buffer::stale(BLOCK * dim);
        for (block, dq) in blocks.zip(dq) {
            let (block, seen) = seen(block);
            let (rows, columns) = (block.len(), seen.len());
            let (p, dp) = (&mut p[..rows * columns], &mut dp[..rows * columns]);
            let query = sizes.head(self.q, sizes.heads, block.start, head);
            let out = sizes.head(self.dy, sizes.heads, block.start, head);
            scores.of(&self.attention, &block, &seen, p, room);
            let values = values.columns(seen.clone());
            matmul(rows, out, values, Old::Replaced, dp, columns, room);
            self.score_gradients(head, block, &seen, p, dp);

            let (p, ds) = (View::rows(p, columns), View::rows(dp, columns));
            let out = Strips::of(self.kernel, (rows, dim), out);
            let dv = &mut dv[seen.start * dim..];
            matmul(
                columns,
                p.transposed(),
                out.all(),
                Old::AddedTo,
                dv,
                dim,
                room,
            );
            let query = Strips::of(self.kernel, (rows, dim), query);
            let dk = &mut dk[seen.start * dim..];
            matmul(
                columns,
                ds.transposed(),
                query.all(),
                Old::AddedTo,
                dk,
                dim,
                room,
            );
            let keys = rows_of_keys.terms(seen);
            matmul(rows, ds, keys, Old::Replaced, &mut dq_block, dim, room);
            for (dq, values) in dq.into_iter().zip(dq_block.chunks(dim)) {
                dq.copy_from_slice(values);
            }
        }
        PartGradient { dk, dv }
    }

    /// [`score_gradient`] of every row of a block.
    fn score_gradients(
        &self,
        head: usize,
        block: Range<usize>,
        seen: &Range<usize>,
        p: &mut [f32],
        dp: &mut [f32],
    ) {
        let Sizes {
            time, heads, dim, ..
        } = self.sizes;
        let rows = p.chunks_mut(seen.len()).zip(dp.chunks_mut(seen.len()));
        for (at, (p, dp)) in block.zip(rows) {
            let own = self.attention.visible(&self.sizes, self.starts, at);
            let own = own.start - seen.start..own.end - seen.start;
            let values = (at * heads + head) * dim..(at * heads + head + 1) * dim;
            let along = dot(&self.dy[values.clone()], &self.y[values]);
            let log_sum = self.log_sums[head * time + at];
            let Attention {
                soft_cap, scale, ..
            } = self.attention;
            score_gradient(soft_cap, p, dp, own, log_sum, along, scale);
        }
    }
}
