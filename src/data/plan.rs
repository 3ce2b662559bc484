//! Which samples make a step: shuffled for every epoch, dealt so that batches are about equally long, and packed.

use crate::data::Sample;
use crate::data::packing::pack;
use crate::tensor::Random;

/// How samples are dealt out.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Rows of a micro-batch: samples, or rows of several when they are packed.
    pub batch_size: usize,
    /// Micro-batches of a step.
    pub grad_accum: usize,
    /// `None` keeps the order of the file.
    pub shuffle_seed: Option<u64>,
    /// Most tokens in a row of several samples; `None` for one sample a row.
    pub packing: Option<usize>,
}

/// Steps whose samples are dealt together. More make batches more equal, fewer leave more to chance.
const STEPS_TOGETHER: usize = 16;

/// Deals the samples of a run into steps and micro-batches.
pub struct Dealer {
    plan: Plan,
    /// Sample numbers by row; none when every sample is its own.
    rows: Option<Vec<Vec<usize>>>,
    /// Tokens of every row.
    lengths: Vec<usize>,
    /// The epoch that was dealt last, as rows by step and micro-batch.
    dealt: Option<(usize, Vec<Vec<Vec<usize>>>)>,
}

impl Dealer {
    pub fn new(plan: Plan, samples: &[Sample]) -> Dealer {
        let lengths: Vec<usize> = samples.iter().map(|sample| sample.ids.len()).collect();
        let rows = plan.packing.map(|most| pack(&lengths, most));
        let lengths = match &rows {
            Some(rows) => rows
                .iter()
                .map(|row| row.iter().map(|&number| lengths[number]).sum())
                .collect(),
            None => lengths,
        };
        Dealer {
            plan,
            rows,
            lengths,
            dealt: None,
        }
    }

    /// Rows of a whole step.
    fn per_step(&self) -> usize {
        self.plan.batch_size * self.plan.grad_accum
    }

    pub fn steps_per_epoch(&self) -> usize {
        self.lengths.len().div_ceil(self.per_step())
    }

    /// Tokens of every row, the longest first: no micro-batch of any epoch has more than the first ones together.
    pub fn row_lengths(&self) -> Vec<usize> {
        let mut lengths = self.lengths.clone();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths
    }

    /// The micro-batches of step `step` (from 0), as sample numbers. The last step of an epoch has what is left.
    pub fn step(&mut self, step: usize) -> Vec<Vec<usize>> {
        let per_epoch = self.steps_per_epoch();
        let epoch = step / per_epoch;
        let dealt = match self.dealt.take() {
            Some((known, dealt)) if known == epoch => dealt,
            _ => self.deal(epoch),
        };
        let rows = dealt[step % per_epoch].clone();
        self.dealt = Some((epoch, dealt));
        let samples = |rows: Vec<usize>| match &self.rows {
            Some(packed) => rows.iter().flat_map(|&row| packed[row].clone()).collect(),
            None => rows,
        };
        rows.into_iter().map(samples).collect()
    }

    /// All rows of an epoch by step and micro-batch.
    fn deal(&self, epoch: usize) -> Vec<Vec<Vec<usize>>> {
        let per_step = self.per_step();
        let Some(seed) = self.plan.shuffle_seed else {
            let order: Vec<usize> = (0..self.lengths.len()).collect();
            return order.chunks(per_step).map(|step| self.cut(step)).collect();
        };
        let random = Random::new(seed).named("order").fork(epoch as u64);
        let order = random.permutation(self.lengths.len());
        if per_step == 1 {
            return order.into_iter().map(|row| vec![vec![row]]).collect();
        }
        let together = order.chunks(per_step * STEPS_TOGETHER).enumerate();
        together
            .flat_map(|(window, rows)| {
                let steps = self.balanced(rows, rows.len().div_ceil(per_step), per_step);
                // Dealing sorts by length; the order of the steps, but for a shorter last one, is left to chance again.
                let full = rows.len() / per_step;
                let mut places = random.named("steps").fork(window as u64).permutation(full);
                places.extend(full..steps.len());
                let steps: Vec<_> = places.into_iter().map(|at| steps[at].clone()).collect();
                steps
            })
            .map(|step| {
                self.balanced(
                    &step,
                    step.len().div_ceil(self.plan.batch_size),
                    self.plan.batch_size,
                )
            })
            .collect()
    }

    fn cut(&self, step: &[usize]) -> Vec<Vec<usize>> {
        let batches = step.chunks(self.plan.batch_size);
        batches.map(<[usize]>::to_vec).collect()
    }

    /// `rows` in `count` groups of `size` rows, of which the last may have fewer, with about as many tokens each: the
    /// longest first, to and fro. Sums of full groups differ by less than the longest row.
    fn balanced(&self, rows: &[usize], count: usize, size: usize) -> Vec<Vec<usize>> {
        let mut sorted = rows.to_vec();
        sorted.sort_by_key(|&row| std::cmp::Reverse(self.lengths[row]));
        let last = rows.len() - (count - 1) * size;
        let mut groups = vec![Vec::with_capacity(size); count];
        let mut sorted = sorted.into_iter();
        for round in 0..size {
            // A shorter last group takes no part in the last rounds.
            let open = if round < last { count } else { count - 1 };
            for turn in 0..open {
                let group = if round % 2 == 0 {
                    turn
                } else {
                    open - 1 - turn
                };
                groups[group].extend(sorted.next());
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most_tokens(dealer: &Dealer) -> usize {
        let lengths = dealer.row_lengths().into_iter();
        lengths.take(dealer.plan.batch_size).sum()
    }

    const PLAN: Plan = Plan {
        batch_size: 2,
        grad_accum: 2,
        shuffle_seed: Some(3),
        packing: None,
    };

    fn samples(lengths: &[usize]) -> Vec<Sample> {
        let sample = |&length: &usize| Sample {
            ids: vec![1; length],
            targets: vec![1; length],
            place: String::new(),
        };
        lengths.iter().map(sample).collect()
    }

    /// Lengths as texts have them: many short ones, a few long ones.
    fn uneven(count: usize) -> Vec<usize> {
        (0..count)
            .map(|i| 2 + (i * i * 7 + i * 13) % 97 * (i % 5))
            .collect()
    }

    #[test]
    fn every_epoch_deals_every_sample_once_in_its_own_order() {
        let mut dealer = Dealer::new(PLAN, &samples(&[5; 7]));
        assert_eq!(dealer.steps_per_epoch(), 2);
        let mut epoch = |first: usize| {
            [dealer.step(first), dealer.step(first + 1)]
                .concat()
                .concat()
        };
        let (mut one, mut two) = (epoch(0), epoch(2));
        assert_ne!(one, two);
        assert_eq!(epoch(0), one, "a resumed run deals as the first");
        one.sort_unstable();
        two.sort_unstable();
        assert_eq!(one, (0..7).collect::<Vec<_>>());
        assert_eq!(two, one);
        assert_eq!(
            dealer.step(1).iter().map(Vec::len).collect::<Vec<_>>(),
            [2, 1]
        );
    }

    #[test]
    fn without_a_seed_the_order_is_the_file_s() {
        let plan = Plan {
            shuffle_seed: None,
            ..PLAN
        };
        let mut dealer = Dealer::new(plan, &samples(&uneven(7)));
        assert_eq!(dealer.step(0), [[0, 1], [2, 3]]);
        assert_eq!(dealer.step(1), [vec![4, 5], vec![6]]);
    }

    #[test]
    fn steps_and_micro_batches_have_about_as_many_tokens_each() {
        let lengths = uneven(16 * 12);
        let plan = Plan {
            batch_size: 4,
            grad_accum: 3,
            ..PLAN
        };
        let mut dealer = Dealer::new(plan, &samples(&lengths));
        let tokens = |numbers: &[usize]| numbers.iter().map(|&n| lengths[n]).sum::<usize>();
        let spread = |sums: &[usize]| sums.iter().max().unwrap() - sums.iter().min().unwrap();
        let longest = *lengths.iter().max().unwrap();
        let steps: Vec<_> = (0..16).map(|step| dealer.step(step)).collect();
        let of_steps: Vec<usize> = steps.iter().map(|step| tokens(&step.concat())).collect();
        assert!(spread(&of_steps) <= longest, "{of_steps:?}");
        for step in &steps {
            assert_eq!(step.iter().map(Vec::len).collect::<Vec<_>>(), [4; 3]);
            let of_batches: Vec<usize> = step.iter().map(|batch| tokens(batch)).collect();
            assert!(spread(&of_batches) <= longest, "{of_batches:?}");
            assert!(
                of_batches
                    .iter()
                    .all(|&tokens| tokens <= most_tokens(&dealer))
            );
        }
    }

    #[test]
    fn packed_rows_are_dealt_as_samples_are() {
        let lengths = uneven(50);
        let plan = Plan {
            packing: Some(400),
            batch_size: 1,
            ..PLAN
        };
        let mut dealer = Dealer::new(plan, &samples(&lengths));
        let steps = dealer.steps_per_epoch();
        let mut seen = Vec::new();
        for step in 0..steps {
            for row in dealer.step(step) {
                assert!(row.iter().map(|&n| lengths[n]).sum::<usize>() <= 400);
                seen.extend(row);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
        assert!(steps < 25 && most_tokens(&dealer) <= 400);
    }
}
