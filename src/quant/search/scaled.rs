//! y = (d·k)·level: blocks of runs that have a scale each, and the levels of a table or whole numbers.

use super::shared::{around, shared};
use super::{BLOCK, COARSER, LANES, VANISHING};
use crate::quant::block::{Half, extreme, inverse};

/// A block: d, the multiple k of each run, and the level of each element.
pub struct Scaled<const LEN: usize, const PARTS: usize> {
    pub d: Half,
    pub scales: [i32; PARTS],
    pub levels: [[f32; LEN]; PARTS],
}

/// How near a scale comes: Σ value² less the squared error, the scale, and Σ level².
#[derive(Clone, Copy, Default)]
pub struct Fit {
    gain: f32,
    pub scale: f32,
    pub weight: f32,
}

/// Packs `values`, PARTS runs of LEN, with multiples between `lowest` and `highest`.
///
/// `tries` and `level` are as in [`best_scale`].
#[inline(always)]
pub fn search_scales<const LEN: usize, const PARTS: usize, I: DoubleEndedIterator<Item = f32>>(
    values: &[f32; BLOCK],
    (lowest, highest): (f32, f32),
    tries: impl Fn() -> I,
    level: impl Fn(f32) -> f32 + Copy,
) -> Scaled<LEN, PARTS> {
    const { assert!(LEN * PARTS == BLOCK) };
    let runs: &[[f32; LEN]] = values.as_chunks().0;
    let fits: [Fit; PARTS] = std::array::from_fn(|part| best_scale(&runs[part], tries(), level));
    let (parts, weights) = (fits.map(|fit| fit.scale), fits.map(|fit| fit.weight));
    let half = shared(&parts, &weights, lowest, highest);
    let d = half.to_f32();
    let mut block = Scaled {
        d: half,
        scales: [0; PARTS],
        levels: [[0.0; LEN]; PARTS],
    };
    for (part, run) in runs.iter().enumerate() {
        let mut least = f32::INFINITY;
        for multiple in around(parts[part], d, lowest, highest) {
            let (error, levels) = quantised(run, d * multiple, level);
            if error < least {
                least = error;
                block.scales[part] = multiple as i32;
                block.levels[part] = levels;
            }
        }
    }
    block
}

/// The scale of least squared error for `values`, of which `level` gives the level nearest to value / scale.
///
/// `tries` are the levels that the value of the largest magnitude is put on, the coarsest scales first; each scale is then the best for the levels
/// it leads to (least squares), and the best of all is improved in the same way until it stays.
#[inline(always)]
pub fn best_scale<const LEN: usize>(
    values: &[f32; LEN],
    tries: impl DoubleEndedIterator<Item = f32>,
    level: impl Fn(f32) -> f32 + Copy,
) -> Fit {
    let mut best = Fit::default();
    let extreme = extreme(values);
    if extreme.abs() < VANISHING {
        return best;
    }
    for at in tries.rev() {
        let fit = fitted(values, at / extreme, level);
        if fit.gain > best.gain * COARSER {
            best = fit;
        }
    }
    for _ in 0..2 {
        let fit = fitted(values, inverse(best.scale), level);
        if fit.gain <= best.gain {
            break;
        }
        best = fit;
    }
    best
}

/// The best scale for the levels that `inverse` leads to: Σ value·level / Σ level².
#[inline(always)]
fn fitted<const LEN: usize>(values: &[f32; LEN], inverse: f32, level: impl Fn(f32) -> f32) -> Fit {
    let (mut products, mut squares) = ([0.0; LANES], [0.0; LANES]);
    for run in values.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            let level = level(run[lane] * inverse);
            products[lane] += run[lane] * level;
            squares[lane] += level * level;
        }
    }
    let (product, weight): (f32, f32) = (products.iter().sum(), squares.iter().sum());
    if weight == 0.0 {
        return Fit::default();
    }
    let scale = product / weight;
    Fit {
        gain: scale * product,
        scale,
        weight,
    }
}

/// The levels of `values` at a scale, and the squared error of scale · level.
#[inline(always)]
pub fn quantised<const LEN: usize>(
    values: &[f32; LEN],
    scale: f32,
    level: impl Fn(f32) -> f32,
) -> (f32, [f32; LEN]) {
    let inverse = inverse(scale);
    let levels = values.map(|value| level(value * inverse));
    let mut errors = [0.0; LANES];
    for (run, levels) in values
        .as_chunks::<LANES>()
        .0
        .iter()
        .zip(levels.as_chunks().0)
    {
        let levels: &[f32; LANES] = levels;
        for lane in 0..LANES {
            let off = run[lane] - scale * levels[lane];
            errors[lane] += off * off;
        }
    }
    (errors.iter().sum(), levels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::search::nearest;
    use crate::tensor::Random;

    /// Against the best of 40 000 scales of either sign, each measured in f64.
    #[test]
    fn no_other_scale_is_much_better() {
        for seed in 0..20 {
            let random = Random::new(seed);
            let sum = |i: u64| (0..6).map(|k| random.uniform(6 * i + k)).sum::<f32>() - 3.0;
            let values: [f32; 16] = std::array::from_fn(|i| sum(i as u64));
            let error = |scale: f64| -> f64 {
                let off = |x: f32| {
                    let x = f64::from(x);
                    x - scale * (x / scale).round().clamp(-4.0, 3.0)
                };
                values.iter().map(|x| off(*x).powi(2)).sum()
            };
            let extreme = f64::from(extreme(&values));
            let scales = (20_000..60_000).map(|i| extreme / (f64::from(i) * 1e-4));
            let least = scales.flat_map(|s| [error(s), error(-s)]);
            let least = least.fold(f64::INFINITY, f64::min);
            let tries = (8..23).flat_map(|i| [i as f32 * -0.25, i as f32 * 0.25]);
            let fit = best_scale(&values, tries, |t| nearest(t, -4.0, 3.0));
            let found = error(fit.scale.into());
            assert!(found <= 1.1 * least, "seed {seed}: {found}, best {least}");
        }
    }
}
