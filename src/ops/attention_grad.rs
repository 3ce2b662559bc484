//! The gradient of attention. Scores are computed again from q, k and the saved log-sum-exp L, block by block:
//!   P = exp(S − L),  dV = Pᵀ·dO,  dP = dO·Vᵀ,  dS = P·(dP − rowsum(dO·O)),  dQ = scale·dS·K,  dK = scale·dSᵀ·Q.
//! Dao 2023, arXiv:2307.08691, algorithm 2.

use std::ops::Range;

use rayon::prelude::*;

use crate::backend::Buffer;
use crate::backend::cpu::{Old, View, dot, exp, matmul, vectorised};
use crate::error::Result;
use crate::ops::Attention;
use crate::ops::attention_layout::{BLOCK, Sizes};
use crate::tensor::Tensor;

/// What one query head contributes: dq [time, dim], and to its key/value head dk and dv [keys, dim].
struct HeadGradient {
    dq: Buffer,
    dk: Buffer,
    dv: Buffer,
}

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
            time,
            heads,
            dim,
            keys,
            kv_heads,
        } = sizes;
        let operands = Operands {
            q: x[0].values()?,
            k: x[1].values()?,
            v: x[2].values()?,
            starts: x[3].ids()?,
            y: y.values()?,
            log_sums: log_sums.values()?,
            dy: dy.values()?,
        };
        let parts: Vec<HeadGradient> = (0..heads)
            .into_par_iter()
            .map(|head| self.head_gradient(&sizes, &operands, head))
            .collect();
        let mut dq = Buffer::zeros(time * heads * dim);
        let mut dk = Buffer::zeros(keys * kv_heads * dim);
        let mut dv = Buffer::zeros(keys * kv_heads * dim);
        for (head, part) in parts.iter().enumerate() {
            let kv_head = sizes.kv_head(head);
            add_head(&mut dq, &part.dq, heads, head, dim);
            add_head(&mut dk, &part.dk, kv_heads, kv_head, dim);
            add_head(&mut dv, &part.dv, kv_heads, kv_head, dim);
        }
        Ok([
            Tensor::of(dq, x[0].shape().clone())?,
            Tensor::of(dk, x[1].shape().clone())?,
            Tensor::of(dv, x[2].shape().clone())?,
        ])
    }

    fn head_gradient(&self, sizes: &Sizes, o: &Operands, head: usize) -> HeadGradient {
        let Sizes {
            time,
            heads,
            dim,
            keys,
            kv_heads,
        } = *sizes;
        let kv_head = sizes.kv_head(head);
        let mut part = HeadGradient {
            dq: Buffer::zeros(time * dim),
            dk: Buffer::zeros(keys * dim),
            dv: Buffer::zeros(keys * dim),
        };
        let most = BLOCK.min(time) * keys;
        let (mut p_room, mut dp_room) = (Buffer::stale(most), Buffer::stale(most));
        for block in sizes.blocks() {
            let seen = self.visible_to(sizes, o.starts, &block);
            let (rows, columns) = (block.len(), seen.len());
            let query = sizes.head(o.q, heads, block.start, head);
            let key = sizes.head(o.k, kv_heads, seen.start, kv_head);
            let value = sizes.head(o.v, kv_heads, seen.start, kv_head);
            let out = sizes.head(o.dy, heads, block.start, head);
            let (p, dp) = (
                &mut p_room[..rows * columns],
                &mut dp_room[..rows * columns],
            );
            self.scores((rows, columns, dim), query, key, p);
            matmul(
                (rows, columns, dim),
                1.0,
                out,
                value.transposed(),
                Old::Replaced,
                dp,
                columns,
            );
            for (row, at) in block.clone().enumerate() {
                let line = row * columns..(row + 1) * columns;
                let own = self.visible(sizes, o.starts, at);
                let own = own.start - seen.start..own.end - seen.start;
                let along = o.along(sizes, at, head);
                score_gradient(
                    self.soft_cap,
                    &mut p[line.clone()],
                    &mut dp[line],
                    own,
                    o.log_sums[head * time + at],
                    along,
                );
            }
            let (p, ds) = (View::rows(p, columns), View::rows(dp, columns));
            let dv = &mut part.dv[seen.start * dim..];
            matmul(
                (columns, dim, rows),
                1.0,
                p.transposed(),
                out,
                Old::AddedTo,
                dv,
                dim,
            );
            let dk = &mut part.dk[seen.start * dim..];
            matmul(
                (columns, dim, rows),
                self.scale,
                ds.transposed(),
                query,
                Old::AddedTo,
                dk,
                dim,
            );
            let dq = &mut part.dq[block.start * dim..];
            matmul(
                (rows, dim, columns),
                self.scale,
                ds,
                key,
                Old::Replaced,
                dq,
                dim,
            );
        }
        part
    }
}

vectorised! {
    /// Turns a row of scores into probabilities `p`, and `dp` into the gradient of the scores before soft cap and mask.
    fn score_gradient(
        soft_cap: Option<f32>,
        p: &mut [f32],
        dp: &mut [f32],
        own: Range<usize>,
        log_sum: f32,
        along: f32,
    ) {
        for row in [&mut *p, &mut *dp] {
            row[..own.start].fill(0.0);
            row[own.end..].fill(0.0);
        }
        let (p, dp) = (&mut p[own.clone()], &mut dp[own]);
        if let Some(cap) = soft_cap {
            for (p, dp) in p.iter().zip(dp.iter_mut()) {
                *dp = (*dp - along) * (1.0 - (p / cap) * (p / cap)) + along;
            }
        }
        for (p, dp) in p.iter_mut().zip(dp) {
            *p = exp(*p - log_sum);
            *dp = *p * (*dp - along);
        }
    }
}

struct Operands<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    starts: &'a [u32],
    y: &'a [f32],
    log_sums: &'a [f32],
    dy: &'a [f32],
}

impl Operands<'_> {
    /// rowsum(dO·O) of one query of one head.
    fn along(&self, sizes: &Sizes, time: usize, head: usize) -> f32 {
        let at = (time * sizes.heads + head) * sizes.dim;
        dot(&self.dy[at..at + sizes.dim], &self.y[at..at + sizes.dim])
    }
}

/// Adds `part` [rows, dim] to head `head` of `all` [rows, heads, dim].
fn add_head(all: &mut [f32], part: &[f32], heads: usize, head: usize, dim: usize) {
    for (row, part) in part.chunks(dim).enumerate() {
        let all = &mut all[(row * heads + head) * dim..][..dim];
        all.iter_mut()
            .zip(part)
            .for_each(|(all, part)| *all += part);
    }
}
