//! The right operand of a product: a piece of a matrix, unpacked and laid out in strips of as many columns as a tile has.

use std::ops::Range;

use rayon::prelude::*;

use super::kernel::{Kernel, Precision, Tile};
use super::pack::{ColumnBlock, Cut, Grouped, Laid, group_columns, lay_rows, start_from};
use crate::backend::Buffer;
use crate::error::Result;

/// Rows of f32 that are unpacked when they are needed.
pub trait Matrix: Sync {
    /// Rows and columns.
    fn size(&self) -> (usize, usize);

    /// Rows `first..first + values.len() / columns`.
    fn unpack(&self, first: usize, values: &mut [f32]) -> Result<()>;
}

/// A part of a product: some of its terms, some of its outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub terms: Range<usize>,
    pub outputs: Range<usize>,
}

pub struct Right {
    columns: usize,
    pub cut: Cut,
    pub first_block: usize,
    pub outputs: Range<usize>,
    groups: Buffer,
    scales: Vec<f32>,
    sums: Vec<i32>,
    /// Distances between strips and between blocks, in groups and in columns.
    strip: (usize, usize),
    block: (usize, usize),
}

impl Right {
    /// Some rows of the matrix, all their terms, as columns; laid out by this thread alone. `cut`: how the terms are cut.
    pub fn panel(kernel: &Kernel, cut: Cut, matrix: &dyn Matrix, piece: &Piece) -> Result<Right> {
        let per_block = cut.steps * kernel.columns;
        let strip = (cut.blocks * per_block, cut.blocks * kernel.columns);
        let block = (per_block, kernel.columns);
        let mut right = Right::empty(kernel, cut, piece, (strip, block));
        right.take_outputs(kernel, matrix, piece)?;
        Ok(right)
    }

    /// Some terms of the matrix, which are its rows, laid out by all threads. `cut`: how all terms of the product are cut.
    pub fn piece(kernel: &Kernel, cut: Cut, matrix: &dyn Matrix, piece: &Piece) -> Result<Right> {
        let per_block = cut.steps * kernel.columns;
        let strips = piece.outputs.len().div_ceil(kernel.columns);
        let strip = (per_block, kernel.columns);
        let block = (strips * per_block, strips * kernel.columns);
        let cut = cut.part(piece.terms.len());
        let mut right = Right::empty(kernel, cut, piece, (strip, block));
        right.take_terms(kernel, matrix, piece)?;
        Ok(right)
    }

    /// `apart`: the distances between strips and between blocks.
    fn empty(
        kernel: &Kernel,
        cut: Cut,
        piece: &Piece,
        apart: ((usize, usize), (usize, usize)),
    ) -> Right {
        let width = kernel.columns;
        let strips = piece.outputs.len().div_ceil(width);
        let scaled = match kernel.precision {
            Precision::Int8 => strips * cut.blocks * width,
            Precision::F32 | Precision::Bf16 => 0,
        };
        Right {
            columns: width,
            cut,
            first_block: piece.terms.start / cut.depth,
            outputs: piece.outputs.clone(),
            groups: Buffer::stale(strips * cut.groups() * width),
            scales: vec![0.0; scaled],
            sums: vec![0; scaled],
            strip: apart.0,
            block: apart.1,
        }
    }

    /// A strip at a time: its rows of the matrix become columns.
    fn take_outputs(&mut self, kernel: &Kernel, matrix: &dyn Matrix, piece: &Piece) -> Result<()> {
        let (width, terms) = (self.columns, piece.terms.len());
        let (groups_apart, scales_apart) = self.strip;
        let (mut values, mut grouped) = (Buffer::stale(width * terms), Grouped::default());
        for (strip, groups) in self.groups.words_mut().chunks_mut(groups_apart).enumerate() {
            let first = piece.outputs.start + strip * width;
            let count = width.min(piece.outputs.end - first);
            let values = &mut values[..count * terms];
            matrix.unpack(first, values)?;
            let at = (strip * scales_apart).min(self.scales.len());
            let end = (at + scales_apart).min(self.scales.len());
            let sums = &mut self.sums[at..end];
            let into = Laid {
                width,
                groups,
                scales: &mut self.scales[at..end],
                sums,
            };
            lay_rows(kernel, (count, terms), values, 0, &mut grouped, into);
            start_from(kernel, sums);
        }
        Ok(())
    }

    /// A block of terms at a time: its rows of the matrix stay rows.
    fn take_terms(&mut self, kernel: &Kernel, matrix: &dyn Matrix, piece: &Piece) -> Result<()> {
        let (cut, columns) = (self.cut, piece.outputs.len());
        let (groups, scales) = self.block;
        let scales = if self.scales.is_empty() {
            usize::MAX
        } else {
            scales
        };
        let mut tasks: Vec<_> = self
            .groups
            .words_mut()
            .chunks_mut(groups)
            .map(|groups| (groups, Default::default()))
            .collect();
        for ((_, task), parts) in tasks.iter_mut().zip(
            self.scales
                .chunks_mut(scales)
                .zip(self.sums.chunks_mut(scales)),
        ) {
            *task = parts;
        }
        tasks.into_par_iter().enumerate().try_for_each_init(
            || Buffer::stale(cut.depth * columns),
            |values, (block, (groups, (scales, sums)))| {
                let first = piece.terms.start + block * cut.depth;
                let count = cut.depth.min(piece.terms.end - first);
                let values = &mut values[..count * columns];
                matrix.unpack(first, values)?;
                let block = ColumnBlock {
                    values,
                    columns,
                    groups,
                    scales,
                    sums,
                };
                group_columns(kernel, &cut, block);
                Ok(())
            },
        )
    }

    pub fn strips(&self) -> usize {
        self.outputs.len().div_ceil(self.columns)
    }

    /// A tile's right half: strip `strip`.
    pub fn fill(&self, strip: usize, tile: &mut Tile) {
        tile.b = self.groups.words()[strip * self.strip.0..].as_ptr();
        tile.b_block = self.block.0;
        let at = (strip * self.strip.1).min(self.scales.len());
        tile.b_scales = self.scales[at..].as_ptr();
        tile.b_sums = self.sums[at..].as_ptr();
        tile.b_scales_block = self.block.1;
    }
}

/// A matrix in memory.
pub struct Dense<'a> {
    pub values: &'a [f32],
    pub columns: usize,
}

impl Matrix for Dense<'_> {
    fn size(&self) -> (usize, usize) {
        (self.values.len() / self.columns.max(1), self.columns)
    }

    fn unpack(&self, first: usize, values: &mut [f32]) -> Result<()> {
        values.copy_from_slice(&self.values[first * self.columns..][..values.len()]);
        Ok(())
    }
}

/// Some rows of a matrix.
pub struct RowSpan<'a> {
    pub matrix: &'a dyn Matrix,
    pub rows: Range<usize>,
}

impl Matrix for RowSpan<'_> {
    fn size(&self) -> (usize, usize) {
        (self.rows.len(), self.matrix.size().1)
    }

    fn unpack(&self, first: usize, values: &mut [f32]) -> Result<()> {
        self.matrix.unpack(self.rows.start + first, values)
    }
}
