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
