//! The right operand of a product: a piece of a matrix, unpacked and laid out in strips of as many columns as a tile has.

use std::ops::Range;

use rayon::prelude::*;

use super::kernel::{DEPTH, Kernel, Precision, Tile};
use super::pack::{
    ColumnBlock, Cut, Grouped, group_columns, group_rows, join_steps, side_by_side, start_from,
};
use super::{PIECE, Side};
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
    /// Cuts a matrix along its rows: its outputs when it is transposed, else its terms.
    pub fn pieces(
        kernel: &Kernel,
        side: Side,
        (terms, outputs): (usize, usize),
    ) -> impl Iterator<Item = Piece> {
        let value = 4 / kernel.precision.group();
        let (rows, columns, unit) = match side {
            Side::Transposed => (outputs, terms, kernel.columns),
            Side::AsIs => (terms, outputs, DEPTH),
        };
        let most = (PIECE / (columns * value).max(1)).next_multiple_of(unit);
        (0..rows).step_by(most).map(move |first| {
            let part = first..(first + most).min(rows);
            match side {
                Side::Transposed => Piece {
                    terms: 0..terms,
                    outputs: part,
                },
                Side::AsIs => Piece {
                    terms: part,
                    outputs: 0..outputs,
                },
            }
        })
    }

    /// `cut`: how all terms of the product are cut.
    pub fn new(
        kernel: &Kernel,
        cut: Cut,
        side: Side,
        matrix: &dyn Matrix,
        piece: &Piece,
    ) -> Result<Right> {
        let width = kernel.columns;
        let (terms, outputs) = (piece.terms.len(), piece.outputs.len());
        let cut = cut.part(terms);
        let strips = outputs.div_ceil(width);
        let int8 = kernel.precision == Precision::Int8;
        let scaled = if int8 { strips * cut.blocks * width } else { 0 };
        let per_block = cut.steps * width;
        let (strip, block) = match side {
            Side::Transposed => (
                (cut.blocks * per_block, cut.blocks * width),
                (per_block, width),
            ),
            Side::AsIs => ((per_block, width), (strips * per_block, strips * width)),
        };
        let mut right = Right {
            columns: width,
            cut,
            first_block: piece.terms.start / cut.depth,
            outputs: piece.outputs.clone(),
            groups: Buffer::stale(strips * cut.groups() * width),
            scales: vec![0.0; scaled],
            sums: vec![0; scaled],
            strip,
            block,
        };
        match side {
            Side::Transposed => right.take_outputs(kernel, matrix, piece)?,
            Side::AsIs => right.take_terms(kernel, matrix, piece)?,
        }
        Ok(right)
    }

    /// A strip at a time: its rows of the matrix become columns.
    fn take_outputs(&mut self, kernel: &Kernel, matrix: &dyn Matrix, piece: &Piece) -> Result<()> {
        let (width, cut, terms) = (self.columns, self.cut, piece.terms.len());
        let (groups, scales) = self.strip;
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
            || (Buffer::stale(width * terms), Grouped::default()),
            |(values, grouped), (strip, (groups, (scales, sums)))| {
                let first = piece.outputs.start + strip * width;
                let count = width.min(piece.outputs.end - first);
                let values = &mut values[..count * terms];
                matrix.unpack(first, values)?;
                let rows = group_rows(kernel, (count, terms), values, false, grouped);
                side_by_side((count, cut.groups()), rows, cut.groups(), groups, width);
                join_steps(kernel, groups, width);
                for (at, (scale, sum)) in grouped.scales.iter().zip(&grouped.sums).enumerate() {
                    let (row, block) = (at / cut.blocks, at % cut.blocks);
                    scales[block * width + row] = *scale;
                    sums[block * width + row] = *sum;
                }
                start_from(kernel, sums);
                Ok(())
            },
        )
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
