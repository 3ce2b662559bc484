//! The f16 number of a block, of which the scales of its runs are whole multiples.

use super::nearest;
use crate::quant::block::{Half, extreme};

/// The largest and the least positive f16 number.
const MOST: f32 = 65504.0;
const LEAST: f32 = 1.0 / (1 << 24) as f32;

/// The d of least Σ weight·(part − d·k)², k whole between `lowest` and `highest`: 0, or −highest − 1, and highest.
///
/// Tried are all d that make the part of the largest magnitude one of the upper half of multiples. So parts that are
/// multiples of one number, as in a file, are found to be that.
pub fn shared<const PARTS: usize>(
    parts: &[f32; PARTS],
    weights: &[f32; PARTS],
    lowest: f32,
    highest: f32,
) -> Half {
    let extreme = extreme(parts);
    let end = if lowest < 0.0 { lowest } else { highest };
    let mut best = (f32::INFINITY, Half::of(0.0));
    if extreme == 0.0 {
        return best.1;
    }
    let most = end.abs() as u32;
    for multiple in (most / 2 + 1..=most).rev() {
        let half = of_a_scale(extreme / (multiple as f32).copysign(end));
        let d = half.to_f32();
        let mut error = 0.0;
        for (part, weight) in parts.iter().zip(weights) {
            let off = part - d * nearest(part / d, lowest, highest);
            error += weight * off * off;
        }
        if error < best.0 {
            best = (error, half);
        }
    }
    best.1
}

/// `d`, which is not 0, as an f16 number that is neither 0 nor infinite.
pub fn of_a_scale(d: f32) -> Half {
    Half::of(d.abs().clamp(LEAST, MOST).copysign(d))
}

/// The two multiples of `d` around `part`, within the limits.
pub fn around(part: f32, d: f32, lowest: f32, highest: f32) -> [f32; 2] {
    if d == 0.0 {
        return [0.0; 2];
    }
    let below = (part / d).floor();
    [below, below + 1.0].map(|multiple| multiple.clamp(lowest, highest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_multiples_of_one_number_are_found_to_be_that() {
        for (lowest, highest, multiples) in [
            (0.0, 63.0, [0.0, 7.0, 61.0, 33.0]),
            (0.0, 15.0, [1.0, 9.0, 4.0, 3.0]),
            (-32.0, 31.0, [-32.0, 5.0, 31.0, 0.0]),
            (-128.0, 127.0, [77.0, -113.0, 12.0, 1.0]),
        ] {
            let parts = multiples.map(|multiple: f32| 0.01171875 * multiple);
            let d = shared(&parts, &[1.0; 4], lowest, highest).to_f32();
            for part in parts {
                assert!(around(part, d, lowest, highest).contains(&(part / d)));
            }
        }
    }

    /// 3 at weight 100 and 1.4 at weight 1: of d = 3/15, 3/14, … 3/8 the heavy part fits all, the light one 3/15 best.
    #[test]
    fn a_part_counts_as_much_as_it_weighs() {
        let d = shared(&[3.0, 1.4], &[100.0, 1.0], 0.0, 15.0).to_f32();
        assert_eq!(d, half::f16::from_f32(0.2).to_f32());
    }

    #[test]
    fn f16_holds_every_scale_as_neither_zero_nor_infinity() {
        assert_eq!(of_a_scale(-1e-20).to_f32(), -LEAST);
        assert_eq!(of_a_scale(1e9).to_f32(), MOST);
        assert_eq!(shared(&[0.0; 8], &[1.0; 8], 0.0, 63.0).to_f32(), 0.0);
    }
}
