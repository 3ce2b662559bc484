//! exp and tanh without branches or calls, so that loops over them vectorise on any target.

use std::f32::consts::LOG2_E;

/// Adding and taking away 1.5·2²³ rounds a small f32 to a whole number, which then stands in the low bits of the sum.
const ROUND: f32 = 12_582_912.0;

/// e^x within 2e-7 of its value; 0 below −87.7, infinite above 88.4, NaN for NaN.
///
/// With n = round(x/ln 2) and r = x − n·ln 2, |r| ≤ 0.347:  e^x = 2^n·e^r, and the Taylor series of e^r to r⁷ is good
/// to 5e-9. ln 2 is taken away in two parts (Cody and Waite 1980), the first of which times n is exact.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const LN_2_HIGH: f32 = 0.693_359_4; // 355/512
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // At these ends n is −127 and 128, whose bits as an exponent are 0 and infinite.
    let x = x.clamp(-88.03, 88.73);
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    let tail = 1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r / 5040.0)));
    power * (1.0 + r * (1.0 + r * (0.5 + r * tail)))
}

/// tanh x within 5e-7 of its value: 1 − 2/(e^2x + 1), and near 0, where that cancels, the Taylor series to x⁹.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let far = 1.0 - 2.0 / (exp(2.0 * x) + 1.0);
    let s = x * x;
    let tail = s * (-17.0 / 315.0 + s * (62.0 / 2835.0));
    let near = x + x * s * (-1.0 / 3.0 + s * (2.0 / 15.0) + s * tail);
    if s < 0.0625 { near } else { far }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(mut check: impl FnMut(f32)) {
        for i in -880_000..=880_000 {
            check(i as f32 * 1e-4);
        }
    }

    #[test]
    fn exp_is_right_to_two_units_in_the_last_place() {
        each(|x| {
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) - expected).abs() / expected;
            assert!(error < 2e-7 || x < -87.3, "exp({x}): {error:.1e}");
        });
    }

    #[test]
    fn tanh_is_right_to_four_units_in_the_last_place() {
        each(|x| {
            let expected = f64::from(x).tanh();
            let error = (f64::from(tanh(x)) - expected).abs() / expected.abs().max(1e-30);
            assert!(error < 5e-7, "tanh({x}): {error:.1e}");
        });
    }

    #[test]
    fn the_ends_are_those_of_the_functions() {
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-1e4), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(1e4), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan() && tanh(f32::NAN).is_nan());
        assert_eq!(
            [tanh(-1e9), tanh(0.0), tanh(f32::INFINITY)],
            [-1.0, 0.0, 1.0]
        );
    }
}
