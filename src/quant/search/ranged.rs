//! y = (d·k)·q − dmin·m: blocks of runs that have a scale and a minimum each, and q whole from 0 on.

use super::shared::{around, shared};
use super::{BLOCK, COARSER, LANES, VANISHING, nearest};
use crate::quant::block::{Half, inverse, range};

/// A block: the f16 numbers, the multiples of them that each run has, and q of each element.
pub struct Ranged<const LEN: usize, const PARTS: usize> {
    pub d: Half,
    pub dmin: Half,
    pub scales: [u8; PARTS],
    pub mins: [u8; PARTS],
    pub levels: [[u8; LEN]; PARTS],
}

/// How near a scale and a minimum come: Σ (value − least)² less the squared error, both, and Σ q².
#[derive(Clone, Copy, Default)]
struct Fit {
    gain: f32,
    scale: f32,
    min: f32,
    weight: f32,
}

/// Packs `values`, PARTS runs of LEN, with q up to `highest` and multiples up to `most`.
///
/// `tries` are the spans of q that the range of a run is put on, ascending; see [`best_range`].
#[inline(always)]
pub fn search_ranges<const LEN: usize, const PARTS: usize, I: DoubleEndedIterator<Item = f32>>(
    values: &[f32; BLOCK],
    highest: f32,
    most: f32,
    tries: impl Fn() -> I,
) -> Ranged<LEN, PARTS> {
    const { assert!(LEN * PARTS == BLOCK) };
    let runs: &[[f32; LEN]] = values.as_chunks().0;
    let fits: [Fit; PARTS] = std::array::from_fn(|part| best_range(&runs[part], highest, tries()));
    let weights = fits.map(|fit| fit.weight);
    let half = shared(&fits.map(|fit| fit.scale), &weights, 0.0, most);
    let half_min = shared(&fits.map(|fit| fit.min), &[1.0; PARTS], 0.0, most);
    let (d, dmin) = (half.to_f32(), half_min.to_f32());
    let mut block = Ranged {
        d: half,
        dmin: half_min,
        scales: [0; PARTS],
        mins: [0; PARTS],
        levels: [[0; LEN]; PARTS],
    };
    for (part, run) in runs.iter().enumerate() {
        let mut least = f32::INFINITY;
        for scale in around(fits[part].scale, d, 0.0, most) {
            for min in around(fits[part].min, dmin, 0.0, most) {
                let (error, levels) = quantised(run, d * scale, dmin * min, highest);
                if error < least {
                    least = error;
                    block.scales[part] = scale as u8;
                    block.mins[part] = min as u8;
                    block.levels[part] = levels.map(|q| q as u8);
                }
            }
        }
    }
    block
}

/// The scale and minimum of least squared error for `values`; neither is negative.
///
/// Each span tried gives q to all elements; scale and minimum are then the best for these q (least squares), and the best
/// of all are improved in the same way until they stay.
#[inline(always)]
fn best_range<const LEN: usize>(
    values: &[f32; LEN],
    highest: f32,
    tries: impl DoubleEndedIterator<Item = f32>,
) -> Fit {
    let (least, most) = range(values);
    let least = least.min(0.0);
    let start = Fit {
        min: -least,
        ..Fit::default()
    };
    if most - least < VANISHING {
        return start;
    }
    // Above the least value: what the sums are of then has the size of the errors looked for.
    let above = values.map(|value| value - least);
    let mut best = start;
    for span in tries.rev() {
        let fit = fitted(&above, least, span / (most - least), 0.0, highest);
        if fit.gain > best.gain * COARSER {
            best = fit;
        }
    }
    for _ in 0..2 {
        let inverse = inverse(best.scale);
        let shift = (best.min + least) * inverse;
        let fit = fitted(&above, least, inverse, shift, highest);
        if fit.gain <= best.gain {
            break;
        }
        best = fit;
    }
    best
}

/// The best scale s and minimum m for q = above·inverse + shift, rounded; a negative m becomes 0.
///
/// With u = x − least = s·q − n, n = m + least, the equations of least squares are s·Σq² − n·Σq = Σuq and
/// s·Σq − n·N = Σu. Of what u² sum to, s·Σuq − n·Σu is kept.
#[inline(always)]
fn fitted<const LEN: usize>(
    above: &[f32; LEN],
    least: f32,
    inverse: f32,
    shift: f32,
    highest: f32,
) -> Fit {
    let (mut sums, mut squares) = ([0.0; LANES], [0.0; LANES]);
    let (mut totals, mut products) = ([0.0; LANES], [0.0; LANES]);
    for run in above.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            let q = nearest(run[lane] * inverse + shift, 0.0, highest);
            sums[lane] += q;
            squares[lane] += q * q;
            totals[lane] += run[lane];
            products[lane] += run[lane] * q;
        }
    }
    let [sum, weight, total, product]: [f32; 4] =
        [sums, squares, totals, products].map(|lanes| lanes.iter().sum());
    let count = LEN as f32;
    let determinant = count * weight - sum * sum;
    if determinant > 0.0 {
        let scale = (count * product - total * sum) / determinant;
        let n = (scale * sum - total) / count;
        if n >= least {
            return Fit {
                gain: scale * product - n * total,
                scale,
                min: n - least,
                weight,
            };
        }
    }
    if weight == 0.0 {
        return Fit::default();
    }
    // m = 0, so s = Σxq / Σq² with x = u + least, and Σx² = Σu² + least·(2Σu + least·N).
    let product = product + least * sum;
    let scale = product / weight;
    Fit {
        gain: scale * product - least * (2.0 * total + least * count),
        scale,
        min: 0.0,
        weight,
    }
}

/// q of each value at a scale and a minimum, and the squared error of scale·q − min.
#[inline(always)]
fn quantised<const LEN: usize>(
    values: &[f32; LEN],
    scale: f32,
    min: f32,
    highest: f32,
) -> (f32, [f32; LEN]) {
    let inverse = inverse(scale);
    let levels = values.map(|value| nearest((value + min) * inverse, 0.0, highest));
    let mut errors = [0.0; LANES];
    for (run, levels) in values
        .as_chunks::<LANES>()
        .0
        .iter()
        .zip(levels.as_chunks().0)
    {
        let levels: &[f32; LANES] = levels;
        for lane in 0..LANES {
            let off = run[lane] - (scale * levels[lane] - min);
            errors[lane] += off * off;
        }
    }
    (errors.iter().sum(), levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_evenly_spaced_values_is_found_exactly() {
        let values: [f32; 16] = std::array::from_fn(|i| 0.25 * (i * 5 % 14) as f32 - 1.5);
        let fit = best_range(&values, 15.0, (8..18).map(|span| span as f32));
        let (error, levels) = quantised(&values, fit.scale, fit.min, 15.0);
        assert!(error < 1e-10, "{error}");
        assert!((fit.scale - 0.25).abs() < 1e-6 && (fit.min - 1.5).abs() < 1e-6);
        assert_eq!(levels, std::array::from_fn(|i| (i * 5 % 14) as f32));
    }

    /// 2.2 and 3, put on 2 and 3, would need the scale 0.8 and the minimum −0.6. With 0 the scale is
    /// 8·(2.2·2 + 3·3) / 8·(4 + 9).
    #[test]
    fn a_minimum_is_never_negative() {
        let values: [f32; 16] = std::array::from_fn(|i| if i < 8 { 2.2 } else { 3.0 });
        let fit = best_range(&values, 3.0, [3.0].into_iter());
        assert_eq!(fit.min, 0.0);
        assert!((fit.scale - 13.4 / 13.0).abs() < 1e-6, "{}", fit.scale);
    }

    #[test]
    fn equal_values_need_no_levels() {
        let fit = best_range(&[-0.5; 32], 15.0, [15.0].into_iter());
        assert_eq!((fit.scale, fit.min), (0.0, 0.5));
        let fit = best_range(&[0.0; 32], 15.0, [15.0].into_iter());
        assert_eq!((fit.scale, fit.min), (0.0, 0.0));
    }
}
