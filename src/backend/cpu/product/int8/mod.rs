//! Rounding to int8: in every block of [`DEPTH`] terms a row is whole numbers of ±127 times a scale.

#[cfg(target_arch = "x86_64")]
mod avx512;

use super::kernel::DEPTH;
use super::pack::{Columns, Cut, Laid, MOST_COLUMNS};
#[cfg(target_arch = "x86_64")]
use crate::backend::cpu::Feature;
use crate::backend::cpu::features::vectorised;

/// Rounds rows and lays them side by side at once, where this processor can; else gives `into` back.
pub fn lay_rows<'a>(
    size: (usize, usize),
    cut: &Cut,
    values: &[f32],
    offset: u8,
    into: Laid<'a>,
) -> Option<Laid<'a>> {
    #[cfg(target_arch = "x86_64")]
    if in_registers() && cut.depth == DEPTH {
        // Safety: the processor has the features.
        unsafe { avx512::lay_rows(size, values, offset, into) };
        return None;
    }
    let _ = (size, cut, values, offset);
    Some(into)
}

/// Rounds the block `columns` of the right operand: groups [steps, width], scales and sums [width].
pub fn lay_columns(columns: &Columns, groups: &mut [u32], scales: &mut [f32], sums: &mut [i32]) {
    #[cfg(target_arch = "x86_64")]
    if in_registers() && scales.len().is_multiple_of(16) {
        // Safety: the processor has the features.
        unsafe { avx512::lay_columns(columns, groups, scales, sums) };
        return;
    }
    quantise_columns(columns, groups, scales, sums);
}

#[cfg(target_arch = "x86_64")]
fn in_registers() -> bool {
    Feature::Avx512.present() && Feature::Avx512Vnni.present()
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
    /// A row to its groups, with a scale and the sum of the whole numbers for each block.
    pub fn quantise_row(
        values: &[f32],
        cut: &Cut,
        offset: u8,
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
                *byte = (*whole as u8).wrapping_add(offset);
            }
            let groups = &mut groups[block * cut.steps..][..cut.steps];
            for (group, bytes) in groups.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *group = u32::from_le_bytes(*bytes);
            }
        }
    }
}

vectorised! {
    fn quantise_columns(rows: &Columns, groups: &mut [u32], scales: &mut [f32], sums: &mut [i32]) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of every size, with a row or column of zeros and one of numbers whose inverse would overflow.
    fn values(rows: usize, columns: usize) -> Vec<f32> {
        let value = |at: usize| match (at / columns % 5, at % columns % 7) {
            (4, _) | (_, 6) => 0.0,
            (3, _) | (_, 5) => (at % 11) as f32 * 1e-37,
            _ => ((at * 37 % 1001) as f32 - 500.0) * 0.013,
        };
        (0..rows * columns).map(value).collect()
    }

    #[test]
    fn rows_laid_out_in_registers_are_those_of_the_plain_loop() {
        for (rows, terms) in [
            (1usize, 64usize),
            (7, 65),
            (14, 100),
            (16, 257),
            (31, 64),
            (32, 576),
        ] {
            let width = 32;
            let blocks = terms.div_ceil(DEPTH);
            let cut = Cut {
                blocks,
                steps: DEPTH / 4,
                depth: DEPTH,
            };
            for offset in [0, 128] {
                let x = values(rows, terms);
                let mut groups = vec![0; cut.groups() * width];
                let (mut scales, mut sums) = (vec![0.0; blocks * width], vec![0; blocks * width]);
                let into = Laid {
                    width,
                    groups: &mut groups,
                    scales: &mut scales,
                    sums: &mut sums,
                };
                if lay_rows((rows, terms), &cut, &x, offset, into).is_some() {
                    return;
                }
                for (row, x) in x.chunks(terms).enumerate() {
                    let mut plain = vec![0; cut.groups()];
                    let (mut scale, mut sum) = (vec![0.0; blocks], vec![0; blocks]);
                    quantise_row(x, &cut, offset, &mut plain, &mut scale, &mut sum);
                    let column = |at: usize| row + at * width;
                    let same = (0..cut.groups()).all(|at| groups[column(at)] == plain[at])
                        && (0..blocks).all(|at| scales[column(at)] == scale[at])
                        && (0..blocks).all(|at| sums[column(at)] == sum[at]);
                    assert!(same, "row {row} of {rows}x{terms}");
                }
            }
        }
    }

    #[test]
    fn columns_laid_out_in_registers_are_those_of_the_plain_loop() {
        for (terms, count, stride) in [(64, 32, 32), (1, 32, 40), (63, 17, 20), (33, 3, 7)] {
            let x = values(terms, stride);
            let columns = Columns {
                values: &x,
                stride,
                terms,
                count,
            };
            let (width, steps) = (32, DEPTH / 4);
            let room = || (vec![0; steps * width], vec![0.0; width], vec![0; width]);
            let (mut ours, mut plain) = (room(), room());
            lay_columns(&columns, &mut ours.0, &mut ours.1, &mut ours.2);
            quantise_columns(&columns, &mut plain.0, &mut plain.1, &mut plain.2);
            assert!(ours == plain, "{terms}x{count}");
        }
    }
}
