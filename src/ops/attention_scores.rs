//! Queries times keys, block by block: what attention and its gradient compute first; and the gradient of that.

use std::ops::Range;

use crate::backend::cpu::{Old, Room, Strips, View, exp, matmul, tanh, vectorised};
use crate::ops::Attention;
use crate::ops::attention_layout::Sizes;

/// The queries of one head, and its keys.
pub struct Scores<'a> {
    pub sizes: &'a Sizes,
    pub q: &'a [f32],
    pub head: usize,
    /// [dim, keys] of the head that serves this one.
    pub keys: &'a Strips,
}

impl Scores<'_> {
    /// scores[block, seen] = scale·q·kᵀ, soft-capped; no mask yet.
    pub fn of(
        &self,
        attention: &Attention,
        block: &Range<usize>,
        seen: &Range<usize>,
        scores: &mut [f32],
        room: &mut Room,
    ) {
        let Sizes { heads, dim, .. } = *self.sizes;
        let rows = self.q.chunks(heads * dim).skip(block.start);
        let mut query = Vec::with_capacity(block.len() * dim);
        for row in rows.take(block.len()) {
            let row = &row[self.head * dim..][..dim];
            query.extend(row.iter().map(|q| attention.scale * q));
        }
        let (query, keys) = (View::rows(&query, dim), self.keys.columns(seen.clone()));
        let stride = seen.len();
        matmul(
            block.len(),
            query,
            keys,
            Old::Replaced,
            scores,
            stride,
            room,
        );
        if let Some(cap) = attention.soft_cap {
            soften(scores, cap);
        }
    }
}

vectorised! {
    fn soften(scores: &mut [f32], cap: f32) {
        for score in scores {
            *score = cap * tanh(*score / cap);
        }
    }
}

vectorised! {
    /// Turns a row of scores into probabilities `p`, and `dp` into the gradient of q·k: of the scores before scale, soft cap
    /// and mask.
    pub fn score_gradient(
        soft_cap: Option<f32>,
        p: &mut [f32],
        dp: &mut [f32],
        own: Range<usize>,
        log_sum: f32,
        along: f32,
        scale: f32,
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
            *dp = scale * *p * (*dp - along);
        }
    }
}
