//! f32 rows to the 32-bit groups that tiles read: one f32, two bf16 or four int8 of one row, lying one after another.

use super::int8;
use super::kernel::{DEPTH, Kernel, Precision};
use crate::backend::cpu::features::vectorised;

/// How the sum of a product over `terms` is cut: blocks of `depth` terms, the last filled up with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    pub blocks: usize,
    /// Groups of a block.
    pub steps: usize,
    /// Terms of a block.
    pub depth: usize,
}

impl Cut {
    /// The first `part` of the terms, cut as all of them are.
    pub fn part(self, terms: usize) -> Cut {
        Cut {
            blocks: terms.div_ceil(self.depth),
            ..self
        }
    }

    pub fn of(terms: usize, kernel: &Kernel) -> Cut {
        // Short sums, those of an adapter, are not filled up to a whole block.
        let group = kernel.precision.group();
        let least = (group * kernel.together).max(4);
        let depth = terms.next_multiple_of(least).clamp(least, DEPTH);
        Cut {
            blocks: terms.div_ceil(depth),
            steps: depth / group,
            depth,
        }
    }

    /// Groups of a row.
    pub fn groups(&self) -> usize {
        self.blocks * self.steps
    }
}

/// Where rows are laid side by side: each row is a column of these, `width` apart from term to term.
pub struct Laid<'a> {
    pub width: usize,
    /// [groups, width]
    pub groups: &'a mut [u32],
    /// [blocks, width], int8 only.
    pub scales: &'a mut [f32],
    /// [blocks, width]: the sums of the int8 values; empty where nobody asks.
    pub sums: &'a mut [i32],
}

/// Rounds `rows` rows of `terms` values to `kernel`'s precision and lays them side by side. `offset` is added to every int8.
pub fn lay_rows(
    kernel: &Kernel,
    (rows, terms): (usize, usize),
    values: &[f32],
    offset: u8,
    grouped: &mut Grouped,
    into: Laid,
) {
    let cut = Cut::of(terms, kernel);
    let size = (rows, cut.groups());
    let into = match kernel.precision {
        Precision::Int8 => int8::lay_rows((rows, terms), &cut, values, offset, into),
        Precision::F32 | Precision::Bf16 => Some(into),
    };
    let Some(into) = into else { return };
    let groups = group_rows(kernel, (rows, terms), values, offset, grouped);
    side_by_side(size, groups, cut.groups(), into.groups, into.width);
    join_steps(kernel, into.groups, into.width);
    for (at, (scale, sum)) in grouped.scales.iter().zip(&grouped.sums).enumerate() {
        let at = at % cut.blocks * into.width + at / cut.blocks;
        into.scales[at] = *scale;
        if let Some(into) = into.sums.get_mut(at) {
            *into = *sum;
        }
    }
}

/// Rows in groups, before they are laid side by side.
#[derive(Default)]
pub struct Grouped {
    /// [rows, groups]
    pub groups: Vec<u32>,
    /// [rows, blocks], int8 only.
    pub scales: Vec<f32>,
    /// [rows, blocks]: the sums of the int8 values.
    pub sums: Vec<i32>,
}

/// Rounds rows of `terms` values to `kernel`'s precision. Gives the groups, [rows, groups].
fn group_rows<'a>(
    kernel: &Kernel,
    (rows, terms): (usize, usize),
    values: &'a [f32],
    offset: u8,
    into: &'a mut Grouped,
) -> &'a [u32] {
    let cut = Cut::of(terms, kernel);
    if kernel.precision == Precision::F32 && cut.groups() == terms {
        return bytemuck::cast_slice(values);
    }
    into.groups.clear();
    into.groups.resize(rows * cut.groups(), 0);
    let int8 = kernel.precision == Precision::Int8;
    into.scales
        .resize(if int8 { rows * cut.blocks } else { 0 }, 0.0);
    into.sums.resize(into.scales.len(), 0);
    for row in 0..rows {
        let values = &values[row * terms..][..terms];
        let groups = &mut into.groups[row * cut.groups()..][..cut.groups()];
        match kernel.precision {
            Precision::F32 => copy_bits(values, groups),
            Precision::Bf16 => pair_row(values, groups),
            Precision::Int8 => {
                let range = row * cut.blocks..(row + 1) * cut.blocks;
                let (scales, sums) = (&mut into.scales[range.clone()], &mut into.sums[range]);
                int8::quantise_row(values, &cut, offset, groups, scales, sums);
            }
        }
    }
    &into.groups
}

vectorised! {
    fn copy_bits(values: &[f32], groups: &mut [u32]) {
        for (group, value) in groups.iter_mut().zip(values) {
            *group = value.to_bits();
        }
    }
}

/// The upper half of an f32's bits, rounded to nearest even; a NaN stays one.
#[inline(always)]
fn bf16(value: f32) -> u32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        bits >> 16 | 0x40
    } else {
        rounded
    }
}

vectorised! {
    pub fn pair_row(values: &[f32], groups: &mut [u32]) {
        let (pairs, rest) = values.as_chunks::<2>();
        for (group, [low, high]) in groups.iter_mut().zip(pairs) {
            *group = bf16(*low) | bf16(*high) << 16;
        }
        if let ([value], Some(group)) = (rest, groups.get_mut(pairs.len())) {
            *group = bf16(*value);
        }
    }
}

/// A block of terms of the right operand, as rows of `columns` values: [terms, columns] to strips of [steps, width].
pub struct ColumnBlock<'a> {
    pub values: &'a [f32],
    pub columns: usize,
    /// [strips, steps, width]
    pub groups: &'a mut [u32],
    /// [strips, width], int8 only.
    pub scales: &'a mut [f32],
    pub sums: &'a mut [i32],
}

/// Rounds a block of at most `depth` terms that lie in rows.
pub fn group_columns(kernel: &Kernel, cut: &Cut, block: ColumnBlock) {
    let width = kernel.columns;
    let terms = block.values.len() / block.columns;
    for strip in 0..block.columns.div_ceil(width) {
        let first = strip * width;
        let count = width.min(block.columns - first);
        let groups = &mut block.groups[strip * cut.steps * width..][..cut.steps * width];
        let rows = Columns {
            values: &block.values[first..],
            stride: block.columns,
            terms,
            count,
        };
        match kernel.precision {
            Precision::F32 => copy_columns(&rows, width, groups),
            Precision::Bf16 => pair_columns(&rows, width, groups),
            Precision::Int8 => {
                let (scales, sums) = (
                    &mut block.scales[first..][..width],
                    &mut block.sums[first..][..width],
                );
                int8::lay_columns(&rows, groups, scales, sums);
                start_from(kernel, sums);
            }
        }
        join_steps(kernel, groups, width);
    }
}

/// [steps, width] to [steps / 2, width, 2] for a kernel that takes two groups of a row together.
pub fn join_steps(kernel: &Kernel, groups: &mut [u32], width: usize) {
    if kernel.together == 2 {
        join_two_steps(groups, width);
    }
}

vectorised! {
    fn join_two_steps(groups: &mut [u32], width: usize) {
        for two in groups.chunks_exact_mut(2 * width) {
            let mut apart = [0; 2 * MOST_COLUMNS];
            let apart = &mut apart[..2 * width];
            apart.copy_from_slice(two);
            let (first, second) = apart.split_at(width);
            for (pair, (first, second)) in two.as_chunks_mut::<2>().0.iter_mut().zip(first.iter().zip(second)) {
                *pair = [*first, *second];
            }
        }
    }
}

/// From the sums of the right operand's int8 values to what a tile's sums start from.
pub fn start_from(kernel: &Kernel, sums: &mut [i32]) {
    // A left operand with 128 added adds 128 times these.
    let factor = if kernel.unsigned_left { -128 } else { 0 };
    sums.iter_mut()
        .for_each(|sum| *sum = sum.wrapping_mul(factor));
}

/// `count` columns of `terms` rows.
pub struct Columns<'a> {
    pub values: &'a [f32],
    pub stride: usize,
    pub terms: usize,
    pub count: usize,
}

impl Columns<'_> {
    /// The values of a term; none beyond the last.
    #[inline(always)]
    pub fn row(&self, term: usize) -> &[f32] {
        let row = self.from(term);
        &row[..self.count.min(row.len())]
    }

    /// The values of a term and all that follow it.
    #[inline(always)]
    fn from(&self, term: usize) -> &[f32] {
        if term < self.terms {
            &self.values[term * self.stride..]
        } else {
            &[]
        }
    }
}

vectorised! {
    pub fn copy_columns(rows: &Columns, width: usize, groups: &mut [u32]) {
        for term in 0..groups.len() / width {
            let into = &mut groups[term * width..];
            match rows.from(term) {
                [] => into[..width].fill(0),
                row => by_sixteens(rows.count, row, row, into, |value, _| value.to_bits()),
            }
        }
    }
}

vectorised! {
    pub fn pair_columns(rows: &Columns, width: usize, groups: &mut [u32]) {
        for step in 0..groups.len() / width {
            let into = &mut groups[step * width..];
            match (rows.from(2 * step), rows.from(2 * step + 1)) {
                ([], _) => into[..width].fill(0),
                (low, []) => by_sixteens(rows.count, low, low, into, |low, _| bf16(low)),
                (low, high) => by_sixteens(rows.count, low, high, into, |low, high| bf16(low) | bf16(high) << 16),
            }
        }
    }
}

/// `count` groups of two rows. Where there is room the last are sixteen too: what is too much lies in the next groups, which
/// are written after these, or in the padding.
#[inline(always)]
fn by_sixteens(
    count: usize,
    low: &[f32],
    high: &[f32],
    into: &mut [u32],
    group: impl Fn(f32, f32) -> u32,
) {
    const AT_ONCE: usize = 16;
    for first in (0..count).step_by(AT_ONCE) {
        let (low, high, into) = (&low[first..], &high[first..], &mut into[first..]);
        let whole = low
            .first_chunk::<AT_ONCE>()
            .zip(high.first_chunk::<AT_ONCE>());
        if let (Some((low, high)), Some(into)) = (whole, into.first_chunk_mut::<AT_ONCE>()) {
            for ((group_of, low), high) in into.iter_mut().zip(low).zip(high) {
                *group_of = group(*low, *high);
            }
        } else {
            let values = low.iter().zip(high).take(count - first);
            for (group_of, (low, high)) in into.iter_mut().zip(values) {
                *group_of = group(*low, *high);
            }
        }
    }
}

/// Most columns of any kernel's tile.
pub const MOST_COLUMNS: usize = 32;

/// Lays `rows` of groups, `stride` apart, side by side: column by column, `rows` of them together and `width` apart.
pub fn side_by_side(
    (rows, columns): (usize, usize),
    groups: &[u32],
    stride: usize,
    into: &mut [u32],
    width: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if crate::backend::cpu::Feature::Avx512.present() {
        for first in (0..rows).step_by(16) {
            let rows = 16.min(rows - first);
            // Safety: the processor has AVX-512; the slices are checked in the function.
            unsafe {
                super::transpose::avx512(
                    (rows, columns),
                    &groups[first * stride..],
                    stride,
                    &mut into[first..],
                    width,
                )
            };
        }
        return;
    }
    transposed((rows, columns), groups, stride, into, width);
}

vectorised! {
    /// Four by four at a time, which the compiler keeps in registers.
    fn transposed(size: (usize, usize), groups: &[u32], stride: usize, into: &mut [u32], width: usize) {
        const SIDE: usize = 4;
        let (rows, columns) = size;
        for (row, column) in (0..columns).step_by(SIDE).flat_map(|column| (0..rows).step_by(SIDE).map(move |row| (row, column))) {
            if rows - row >= SIDE && columns - column >= SIDE {
                let line = |i: usize| -> &[u32; SIDE] {
                    groups[(row + i) * stride + column..].first_chunk().expect("as long as columns")
                };
                let (a, b, c, d) = (line(0), line(1), line(2), line(3));
                for j in 0..SIDE {
                    into[(column + j) * width + row..][..SIDE].copy_from_slice(&[a[j], b[j], c[j], d[j]]);
                }
                continue;
            }
            for i in row..rows.min(row + SIDE) {
                for j in column..columns.min(column + SIDE) {
                    into[j * width + i] = groups[i * stride + j];
                }
            }
        }
    }
}
