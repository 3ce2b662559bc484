//! Samples into micro-batches of real tokens, and some of them held out.

use crate::data::Sample;
use crate::error::Result;
use crate::tensor::{Random, Rows, Tensor};

/// Samples laid one after another on the time axis.
pub struct Batch {
    /// u32 [time]
    pub ids: Tensor,
    /// u32 [time]
    pub targets: Tensor,
    pub rows: Rows,
    pub target_count: usize,
}

impl Batch {
    /// `numbers` name the samples within the run, which decides their dropout masks.
    pub fn new(samples: &[Sample], numbers: &[usize]) -> Result<Batch> {
        let (mut ids, mut targets, mut lengths, mut target_count) =
            (Vec::new(), Vec::new(), Vec::new(), 0);
        for &number in numbers {
            let sample = &samples[number];
            ids.extend(&sample.ids);
            targets.extend(&sample.targets);
            lengths.push((number as u32, sample.ids.len()));
            target_count += sample.target_count();
        }
        let time = ids.len();
        Ok(Batch {
            ids: Tensor::of_u32(ids, [time])?,
            targets: Tensor::of_u32(targets, [time])?,
            rows: Rows::of_samples(&lengths)?,
            target_count,
        })
    }

    /// Tokens in the batch; none is padding.
    pub fn tokens(&self) -> usize {
        self.ids.shape().elements()
    }
}

/// Splits off `share` (0 to 1, exclusive) of the records for evaluation, at least one, chosen by `seed`; the order of the
/// rest is kept. The samples of a record stay together, except when there is but one record: then it is the samples that
/// are split.
pub fn split(samples: Vec<Sample>, share: f64, seed: u64) -> (Vec<Sample>, Vec<Sample>) {
    let mut groups = Vec::with_capacity(samples.len());
    for (index, sample) in samples.iter().enumerate() {
        let group = match groups.last() {
            Some(&last) if samples[index - 1].place == sample.place => last,
            Some(&last) => last + 1,
            None => 0,
        };
        groups.push(group);
    }
    let mut count = groups.last().map_or(0, |last| last + 1);
    if count == 1 {
        groups = (0..samples.len()).collect();
        count = samples.len();
    }
    let held_out = ((count as f64 * share).round() as usize).clamp(1, count.saturating_sub(1));
    let order = Random::new(seed).named("eval").permutation(count);
    let mut chosen = vec![false; count];
    order[..held_out]
        .iter()
        .for_each(|&number| chosen[number] = true);
    let mut groups = groups.into_iter();
    samples
        .into_iter()
        .partition(|_| !groups.next().is_some_and(|group| chosen[group]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_holds_out_at_least_one_and_keeps_the_rest_in_order() {
        let sample = |id: u32, place: &str| Sample {
            ids: vec![id, id],
            targets: vec![id, id],
            place: place.to_owned(),
        };
        let records = (0..10).map(|id| sample(id, &id.to_string())).collect();
        let (train, eval) = split(records, 0.01, 5);
        assert_eq!((train.len(), eval.len()), (9, 1));
        assert!(train.windows(2).all(|pair| pair[0].ids[0] < pair[1].ids[0]));
        // Samples of one record do not end up on both sides.
        let records = (0..12).map(|id| sample(id, ["a", "b", "c"][id as usize / 4]));
        let (train, eval) = split(records.collect(), 0.3, 5);
        assert_eq!((train.len(), eval.len()), (8, 4));
        assert!(eval.iter().all(|sample| sample.place == eval[0].place));
        // One long text is all there is.
        let (train, eval) = split((0..10).map(|id| sample(id, "a")).collect(), 0.2, 5);
        assert_eq!((train.len(), eval.len()), (8, 2));
    }
}
