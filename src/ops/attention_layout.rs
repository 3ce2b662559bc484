//! How attention walks its inputs: heads inside [time, heads, dim], blocks of queries, and the keys each query sees.

use std::ops::Range;

use crate::backend::cpu::View;
use crate::ops::Attention;
use crate::shape::Shape;

/// Queries handled together by one thread.
pub(crate) const BLOCK: usize = 64;

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
}
