//! Sums and maxima of a row in sixteen lanes: they vectorise, and a sum rounds less than term after term.

/// How many values go through a row side by side.
pub const LANES: usize = 16;

/// The sum of the lanes by halves: a few operations on vectors instead of one addition after another.
#[inline(always)]
pub fn across(mut lanes: [f32; LANES]) -> f32 {
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
    }
    lanes[0]
}

/// The largest value, −∞ of none; NaN is passed over.
#[inline(always)]
pub fn max(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = if value > *lane { value } else { *lane };
        }
    }
    lanes.iter().chain(rest).copied().fold(lanes[0], f32::max)
}

/// Σ a·b over the shorter of the two.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let len = a.len().min(b.len());
    let (a_chunks, a_rest) = a[..len].as_chunks::<LANES>();
    let (b_chunks, b_rest) = b[..len].as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    across(lanes) + rest
}

/// Σ term(value)
#[inline(always)]
pub fn sum_of(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane += term(value);
        }
    }
    across(lanes) + rest.iter().map(|&value| term(value)).sum::<f32>()
}

/// Replaces every value by the first of `each(value)` and gives the sum of the seconds.
#[inline(always)]
pub fn replace_and_sum(values: &mut [f32], each: impl Fn(f32) -> (f32, f32)) -> f32 {
    let (chunks, rest) = values.as_chunks_mut::<LANES>();
    let mut lanes = [0.0; LANES];
    let step = |lane: &mut f32, value: &mut f32| {
        let (new, term) = each(*value);
        *value = new;
        *lane += term;
    };
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            step(lane, value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        step(lane, value);
    }
    across(lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_counts_once_at_any_length() {
        for len in [0, 1, 7, 16, 33, 257] {
            let mut values: Vec<f32> = (0..len).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
            let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let squares = values.iter().map(|v| v * v).sum::<f32>();
            assert_eq!(max(&values), largest, "{len}");
            assert_eq!(dot(&values, &values), squares, "{len}");
            assert_eq!(sum_of(&values, |v| v * v), squares, "{len}");
            let doubled: Vec<f32> = values.iter().map(|v| v * 2.0).collect();
            let sum = replace_and_sum(&mut values, |v| (v * 2.0, v * v));
            assert_eq!((values, sum), (doubled, squares), "{len}");
        }
    }
}
