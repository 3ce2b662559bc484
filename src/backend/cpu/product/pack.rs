//! f32 rows to the 32-bit groups that tiles read: one f32, two bf16 or four int8 of one row, lying one after another.

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

/// Rounds rows of `terms` values to `kernel`'s precision. `unsigned` adds 128 to every int8. Gives the groups, [rows, groups].
pub fn group_rows<'a>(
    kernel: &Kernel,
    (rows, terms): (usize, usize),
    values: &'a [f32],
    unsigned: bool,
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
                quantise_row(
                    values,
                    &cut,
                    if unsigned { 128 } else { 0 },
                    groups,
                    scales,
                    sums,
                );
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
    fn pair_row(values: &[f32], groups: &mut [u32]) {
        let (pairs, rest) = values.as_chunks::<2>();
        for (group, [low, high]) in groups.iter_mut().zip(pairs) {
            *group = bf16(*low) | bf16(*high) << 16;
        }
        if let ([value], Some(group)) = (rest, groups.get_mut(pairs.len())) {
            *group = bf16(*value);
        }
    }
}

/// The bits of the largest magnitude; those of a NaN are larger than any.
#[inline(always)]
fn magnitude(value: f32) -> u32 {
    value.to_bits() & 0x7fff_ffff
}

/// Adding and taking away 1.5·2²³ rounds to a whole number, which then stands in the low bits of the sum.
const ROUND: f32 = 12_582_912.0;

/// What an int8 stands for, and its inverse. Not finite when `largest` is not, so the product is not either.
#[inline(always)]
fn scale_of(largest: u32) -> (f32, f32) {
    let largest = f32::from_bits(largest);
    let scale = largest / 127.0;
    // The inverse of a subnormal would be infinite: what small values add is below f32 then.
    (
        scale,
        if largest > 1e-35 {
            127.0 / largest
        } else {
            0.0
        },
    )
}

#[inline(always)]
fn rounded(value: f32, inverse: f32) -> i32 {
    ((value * inverse + ROUND).to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32)
}

vectorised! {
    fn quantise_row(
        values: &[f32],
        cut: &Cut,
        offset: i32,
        groups: &mut [u32],
        scales: &mut [f32],
        sums: &mut [i32],
    ) {
        for (block, values) in values.chunks(cut.depth).enumerate() {
            let mut padded = [0.0; DEPTH];
            let values: &[f32; DEPTH] = match values.try_into() {
                Ok(values) => values,
                Err(_) => {
                    padded[..values.len()].copy_from_slice(values);
                    &padded
                }
            };
            let largest = values.iter().fold(0, |largest, &value| magnitude(value).max(largest));
            let (scale, inverse) = scale_of(largest);
            scales[block] = scale;
            let mut whole = [0i32; DEPTH];
            for (whole, &value) in whole.iter_mut().zip(values) {
                *whole = rounded(value, inverse);
            }
            sums[block] = whole.iter().fold(0, |sum: i32, &whole| sum.wrapping_add(whole));
            let mut bytes = [0u8; DEPTH];
            for (byte, whole) in bytes.iter_mut().zip(&whole) {
                *byte = whole.wrapping_add(offset) as u8;
            }
            let groups = &mut groups[block * cut.steps..][..cut.steps];
            for (group, bytes) in groups.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *group = u32::from_le_bytes(*bytes);
            }
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
        let rows = Rows {
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
                quantise_columns(&rows, groups, scales, sums);
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
struct Rows<'a> {
    values: &'a [f32],
    stride: usize,
    terms: usize,
    count: usize,
}

impl Rows<'_> {
    #[inline(always)]
    fn row(&self, term: usize) -> &[f32] {
        if term < self.terms {
            &self.values[term * self.stride..][..self.count]
        } else {
            &[]
        }
    }
}

vectorised! {
    fn copy_columns(rows: &Rows, width: usize, groups: &mut [u32]) {
        for (term, groups) in groups.chunks_exact_mut(width).enumerate() {
            groups.fill(0);
            for (group, value) in groups.iter_mut().zip(rows.row(term)) {
                *group = value.to_bits();
            }
        }
    }
}

vectorised! {
    fn pair_columns(rows: &Rows, width: usize, groups: &mut [u32]) {
        for (step, groups) in groups.chunks_exact_mut(width).enumerate() {
            groups.fill(0);
            for (group, low) in groups.iter_mut().zip(rows.row(2 * step)) {
                *group = bf16(*low);
            }
            for (group, high) in groups.iter_mut().zip(rows.row(2 * step + 1)) {
                *group |= bf16(*high) << 16;
            }
        }
    }
}

vectorised! {
    fn quantise_columns(rows: &Rows, groups: &mut [u32], scales: &mut [f32], sums: &mut [i32]) {
        let width = scales.len();
        let mut largest = [0u32; MOST_COLUMNS];
        for term in 0..rows.terms {
            for (largest, &value) in largest.iter_mut().zip(rows.row(term)) {
                *largest = (*largest).max(magnitude(value));
            }
        }
        let mut inverses = [0.0; MOST_COLUMNS];
        for ((scale, inverse), &largest) in scales.iter_mut().zip(&mut inverses).zip(&largest) {
            (*scale, *inverse) = scale_of(largest);
        }
        sums.fill(0);
        for (step, groups) in groups.chunks_exact_mut(width).enumerate() {
            groups.fill(0);
            for byte in 0..4 {
                let row = rows.row(4 * step + byte);
                for (((group, &value), inverse), sum) in groups.iter_mut().zip(row).zip(&inverses).zip(sums.iter_mut()) {
                    let whole = rounded(value, *inverse);
                    *sum = sum.wrapping_add(whole);
                    *group |= (whole as u32 & 0xff) << (8 * byte);
                }
            }
        }
    }
}

/// Most columns of any kernel's tile.
const MOST_COLUMNS: usize = 32;

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
