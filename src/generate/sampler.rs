//! Choosing the next token from logits: penalty, temperature, the k most likely, the smallest set of a given probability.
//!
//! Each step is defined, and they follow one another, as in transformers: `RepetitionPenaltyLogitsProcessor` (Keskar et al.
//! 2019, arXiv:1909.05858), `TemperatureLogitsWarper`, `TopKLogitsWarper` (Fan et al. 2018, arXiv:1805.04833) and
//! `TopPLogitsWarper` (Holtzman et al. 2020, arXiv:1904.09751).

use std::collections::HashSet;

use crate::tensor::Random;

#[derive(Debug, Clone, Copy)]
pub struct Sampler {
    /// 0 takes the most likely token; higher is wilder.
    pub temperature: f32,
    /// How many of the most likely tokens are considered; 0 for all.
    pub top_k: usize,
    /// Of those, the fewest whose probabilities add up to at least this; 1 for all.
    pub top_p: f32,
    /// Positive logits of tokens seen before are divided by it, negative ones multiplied; 1 for no penalty.
    pub repeat_penalty: f32,
    pub seed: u64,
}

impl Default for Sampler {
    /// The most likely token, always.
    fn default() -> Self {
        Sampler {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            repeat_penalty: 1.0,
            seed: 0,
        }
    }
}

impl Sampler {
    /// Picks a token of `logits` [vocab]. `seen`: the ids before it, prompt included. `index` is its number within the
    /// text, so that a text is the same at every run.
    pub fn pick(&self, logits: &[f32], seen: &[u32], index: u64) -> u32 {
        let likely = self.likely(logits, seen);
        let Some((first, _)) = likely.first() else {
            return 0;
        };
        let mut left = f64::from(Random::new(self.seed).named("sample").uniform(index));
        for (id, share) in &likely {
            left -= share;
            if left < 0.0 {
                return *id;
            }
        }
        *first
    }

    /// The tokens that can be picked, the most likely first, with probabilities that add up to 1.
    pub fn likely(&self, logits: &[f32], seen: &[u32]) -> Vec<(u32, f64)> {
        let logits = self.penalised(logits, seen);
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        // Equal logits stay in the order of their ids, so that a text does not depend on how they are sorted.
        let by_logit = |a: &u32, b: &u32| {
            let more = logits[*b as usize].total_cmp(&logits[*a as usize]);
            more.then(a.cmp(b))
        };
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
            return order.into_iter().map(|id| (id, 1.0)).collect();
        }
        let top = logits[order[0] as usize];
        let weight = |id: u32| f64::from((logits[id as usize] - top) / self.temperature).exp();
        let mut shares: Vec<(u32, f64)> = order.into_iter().map(|id| (id, weight(id))).collect();
        normalize(&mut shares);
        let mut before = 0.0;
        let needed = shares.iter().take_while(|(_, share)| {
            let is_needed = before < f64::from(self.top_p);
            before += share;
            is_needed
        });
        let count = needed.count().max(1);
        shares.truncate(count);
        normalize(&mut shares);
        shares
    }

    fn penalised(&self, logits: &[f32], seen: &[u32]) -> Vec<f32> {
        let mut logits = logits.to_vec();
        if self.repeat_penalty != 1.0 {
            for id in seen.iter().collect::<HashSet<_>>() {
                if let Some(logit) = logits.get_mut(*id as usize) {
                    *logit = match *logit < 0.0 {
                        true => *logit * self.repeat_penalty,
                        false => *logit / self.repeat_penalty,
                    };
                }
            }
        }
        logits
    }
}

fn normalize(shares: &mut [(u32, f64)]) {
    let total: f64 = shares.iter().map(|(_, share)| share).sum();
    for (_, share) in shares {
        *share /= total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits of the probabilities 0.1, 0.4, 0.2, 0.3.
    fn logits() -> Vec<f32> {
        [0.1_f32, 0.4, 0.2, 0.3].map(f32::ln).to_vec()
    }

    const ALL: Sampler = Sampler {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        repeat_penalty: 1.0,
        seed: 1,
    };

    fn assert_likely(sampler: Sampler, seen: &[u32], expected: &[(u32, f64)]) {
        let likely = sampler.likely(&logits(), seen);
        let ids = |list: &[(u32, f64)]| list.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        assert_eq!(ids(&likely), ids(expected), "{sampler:?}");
        for ((_, share), (_, expected)) in likely.iter().zip(expected) {
            assert!((share - expected).abs() < 1e-6, "{share} {expected}");
        }
    }

    #[test]
    fn zero_temperature_takes_the_largest_logit() {
        let greedy = Sampler {
            top_k: 40,
            ..Sampler::default()
        };
        assert_eq!(greedy.pick(&[0.1, 3.0, -1.0, 2.9], &[], 0), 1);
    }

    #[test]
    fn each_setting_gives_the_distribution_worked_out_by_hand() {
        let whole = [(1, 0.4), (3, 0.3), (2, 0.2), (0, 0.1)];
        assert_likely(ALL, &[], &whole);
        let two = [(1, 4.0 / 7.0), (3, 3.0 / 7.0)];
        assert_likely(Sampler { top_k: 2, ..ALL }, &[], &two);
        // 0.4 is short of 0.5, 0.4 + 0.3 is not; 0.4 + 0.3 reaches 0.69 as well, and 0.71 needs the third.
        assert_likely(Sampler { top_p: 0.5, ..ALL }, &[], &two);
        assert_likely(Sampler { top_p: 0.69, ..ALL }, &[], &two);
        let three = [(1, 4.0 / 9.0), (3, 3.0 / 9.0), (2, 2.0 / 9.0)];
        assert_likely(Sampler { top_p: 0.71, ..ALL }, &[], &three);
        assert_likely(Sampler { top_p: 0.01, ..ALL }, &[], &[(1, 1.0)]);
        // At temperature 0.5 probabilities are squared: 16, 9, 4 and 1 of 30.
        let cold = [
            (1, 16.0 / 30.0),
            (3, 9.0 / 30.0),
            (2, 4.0 / 30.0),
            (0, 1.0 / 30.0),
        ];
        let half = Sampler {
            temperature: 0.5,
            ..ALL
        };
        assert_likely(half, &[], &cold);
        // The set of top-p is chosen after temperature and top-k: 16 of 25 is 0.64.
        let chain = Sampler {
            top_k: 2,
            top_p: 0.64,
            ..half
        };
        assert_likely(chain, &[], &[(1, 16.0 / 25.0 / (16.0 / 25.0))]);
    }

    #[test]
    fn tokens_seen_before_are_less_likely_by_the_penalty_once() {
        // ln 0.4 · 2 = ln 0.16: of 0.16 + 0.3 + 0.2 + 0.1.
        let penalty = Sampler {
            repeat_penalty: 2.0,
            ..ALL
        };
        let total = 0.76;
        let expected = [
            (3, 0.3 / total),
            (2, 0.2 / total),
            (1, 0.16 / total),
            (0, 0.1 / total),
        ];
        assert_likely(penalty, &[1, 1, 1], &expected);
        let positive = penalty.likely(&[2.0, 1.5], &[0, 99]);
        assert_eq!(positive[0].0, 1, "2 / 2 is below 1.5");
    }

    #[test]
    fn tokens_are_drawn_in_proportion() {
        let sampler = Sampler { top_k: 2, ..ALL };
        let logits = [3.0_f32.ln(), 0.0, -1.0, -2.0];
        let picks: Vec<u32> = (0..4000)
            .map(|index| sampler.pick(&logits, &[], index))
            .collect();
        assert!(picks.iter().all(|id| *id < 2));
        let first = picks.iter().filter(|id| **id == 0).count() as f64 / 4000.0;
        assert!((first - 0.75).abs() < 0.03, "{first}");
    }
}
