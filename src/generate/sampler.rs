//! Choosing the next token from logits: temperature, then the k most likely. Fan et al. 2018, arXiv:1805.04833.

use crate::tensor::Random;

#[derive(Debug, Clone, Copy)]
pub struct Sampler {
    /// 0 takes the most likely token; higher is wilder.
    pub temperature: f32,
    /// How many of the most likely tokens are considered; 0 for all.
    pub top_k: usize,
    pub seed: u64,
}

impl Sampler {
    /// Picks a token of `logits` [vocab]; `index` is its number within the text, so a text is the same at every run.
    pub fn pick(&self, logits: &[f32], index: u64) -> u32 {
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        let by_logit = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]);
        let keep = match self.top_k {
            _ if self.temperature <= 0.0 => 1,
            0 => order.len(),
            k => k.min(order.len()),
        };
        if keep < order.len() {
            order.select_nth_unstable_by(keep, by_logit);
            order.truncate(keep);
        }
        order.sort_unstable_by(by_logit);
        if keep <= 1 {
            return order.first().copied().unwrap_or(0);
        }
        let top = logits[order[0] as usize];
        let weight = |id: &u32| f64::from((logits[*id as usize] - top) / self.temperature).exp();
        let total: f64 = order.iter().map(weight).sum();
        let mut left = total * f64::from(Random::new(self.seed).named("sample").uniform(index));
        for id in &order {
            left -= weight(id);
            if left < 0.0 {
                return *id;
            }
        }
        order[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_temperature_takes_the_largest_logit() {
        let sampler = Sampler {
            temperature: 0.0,
            top_k: 40,
            seed: 1,
        };
        assert_eq!(sampler.pick(&[0.1, 3.0, -1.0, 2.9], 0), 1);
    }

    #[test]
    fn only_the_k_most_likely_are_drawn_in_proportion() {
        let sampler = Sampler {
            temperature: 1.0,
            top_k: 2,
            seed: 1,
        };
        let logits = [3.0_f32.ln(), 0.0, -1.0, -2.0];
        let picks: Vec<u32> = (0..4000)
            .map(|index| sampler.pick(&logits, index))
            .collect();
        assert!(picks.iter().all(|id| *id < 2));
        let first = picks.iter().filter(|id| **id == 0).count() as f64 / 4000.0;
        assert!((first - 0.75).abs() < 0.03, "{first}");
    }
}
