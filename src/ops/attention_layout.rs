//! How attention walks its inputs: heads inside [time, heads, dim], blocks of queries, and the keys each query sees.

use std::ops::Range;

use crate::backend::cpu::View;
use crate::backend::cpu::product::Kernel;
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

    /// Head `head` of the keys, or of the values, in [keys, kv_heads, dim].
    pub fn kv<'a>(&self, values: &'a [f32], kv_head: usize) -> View<'a> {
        self.head(values, self.kv_heads, 0, kv_head)
    }

    /// Head `head` of rows from `time` on, in [time, heads, dim].
    pub fn head<'a>(&self, values: &'a [f32], heads: usize, time: usize, head: usize) -> View<'a> {
        View {
            values: &values[(time * heads + head) * self.dim..],
            row_stride: heads * self.dim,
            column_stride: 1,
        }
    }

    pub fn blocks(&self) -> usize {
        self.time.div_ceil(BLOCK)
    }

    /// The queries of a block, as a range of time.
    pub fn block(&self, index: usize) -> Range<usize> {
        index * BLOCK..self.time.min((index + 1) * BLOCK)
    }

    /// The values of each block of each head in `y` [time, heads, dim], query by query. [heads, blocks]
    pub fn by_head_and_block<'a>(&self, y: &'a mut [f32]) -> Vec<Vec<&'a mut [f32]>> {
        let part = |_| Vec::with_capacity(BLOCK);
        let mut parts: Vec<_> = (0..self.heads * self.blocks()).map(part).collect();
        for (at, values) in y.chunks_mut(self.dim).enumerate() {
            let (time, head) = (at / self.heads, at % self.heads);
            parts[head * self.blocks() + time / BLOCK].push(values);
        }
        parts
    }
}

impl Attention {
    /// The keys query `time` sees.
    pub(super) fn visible(&self, sizes: &Sizes, starts: &[u32], time: usize) -> Range<usize> {
        let end = time + sizes.keys - sizes.time + 1;
        let in_window = self.window.map_or(0, |window| end.saturating_sub(window));
        (starts[time] as usize).max(in_window)..end
    }

    /// The keys any query of `block` sees, and those before them in the same strip of `kernel`.
    pub(super) fn visible_to(
        &self,
        kernel: &Kernel,
        sizes: &Sizes,
        starts: &[u32],
        block: &Range<usize>,
    ) -> Range<usize> {
        let ranges = block.clone().map(|time| self.visible(sizes, starts, time));
        let seen = ranges.fold(sizes.keys..0, |all, one| {
            all.start.min(one.start)..all.end.max(one.end)
        });
        seen.start - seen.start % kernel.columns..seen.end
    }
}
