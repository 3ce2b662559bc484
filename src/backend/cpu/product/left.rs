//! The left operand of a product, laid out in strips of as many rows as a tile has.

use rayon::prelude::*;

use super::kernel::{Kernel, Tile};
use super::pack::{Cut, Grouped, Laid, lay_rows};
use crate::backend::Buffer;

pub struct Left {
    kernel_rows: usize,
    rows: usize,
    pub cut: Cut,
    /// [strips, blocks, steps, rows of the strip], as `Tile::a`
    groups: Buffer,
    /// [strips, blocks, rows of the strip], int8 only.
    scales: Vec<f32>,
}

impl Left {
    /// `x`: [rows, terms].
    pub fn new(kernel: &Kernel, (rows, terms): (usize, usize), x: &[f32]) -> Left {
        let cut = Cut::of(terms, kernel);
        let mut groups = Buffer::stale(rows * cut.groups());
        let int8 = kernel.precision == super::Precision::Int8;
        let mut scales = vec![0.0; if int8 { rows * cut.blocks } else { 0 }];
        let scales_of_strip = if int8 {
            kernel.rows * cut.blocks
        } else {
            usize::MAX
        };
        let mut parts: Vec<_> = scales.chunks_mut(scales_of_strip).collect();
        parts.resize_with(rows.div_ceil(kernel.rows), || &mut []);
        groups
            .words_mut()
            .par_chunks_mut(kernel.rows * cut.groups())
            .zip(parts)
            .enumerate()
            .for_each_init(Grouped::default, |grouped, (strip, (groups, scales))| {
                let first = strip * kernel.rows;
                let count = kernel.rows.min(rows - first);
                let x = &x[first * terms..(first + count) * terms];
                let into = Laid {
                    width: count,
                    groups,
                    scales,
                    sums: &mut [],
                };
                let offset = if kernel.unsigned_left { 128 } else { 0 };
                lay_rows(kernel, (count, terms), x, offset, grouped, into);
            });
        Left {
            kernel_rows: kernel.rows,
            rows,
            cut,
            groups,
            scales,
        }
    }

    pub fn strips(&self) -> usize {
        self.rows.div_ceil(self.kernel_rows)
    }

    /// A tile's left half: strip `strip`, the blocks of `cut` from `first_block` on.
    pub fn tile(&self, strip: usize, cut: Cut, first_block: usize) -> Tile {
        let first = strip * self.kernel_rows;
        let rows = self.kernel_rows.min(self.rows - first);
        let at = first * self.cut.groups() + first_block * cut.steps * rows;
        let scales_at = (first * self.cut.blocks + first_block * rows).min(self.scales.len());
        Tile {
            rows,
            blocks: cut.blocks,
            steps: cut.steps,
            a: self.groups.words()[at..].as_ptr(),
            a_scales: self.scales[scales_at..].as_ptr(),
            b: std::ptr::null(),
            b_block: 0,
            b_scales: std::ptr::null(),
            b_sums: std::ptr::null(),
            b_scales_block: 0,
            c: std::ptr::null_mut(),
            c_stride: 0,
            keep: false,
        }
    }
}
