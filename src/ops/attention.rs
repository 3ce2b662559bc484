//! Scaled dot-product attention by blocks of queries: softmax(scale·q·kᵀ + mask)·v, never [time, time] in memory.
//! Vaswani et al. 2017, arXiv:1706.03762, eq. 1; blocks and the saved log-sum-exp as in Dao 2023, arXiv:2307.08691.

use std::ops::Range;

use rayon::prelude::*;

use crate::backend::Buffer;
use crate::backend::cpu::product::{Kernel, Precision};
use crate::backend::cpu::{Old, Room, Strips, View, exp, matmul, max, replace_and_sum, vectorised};
use crate::bail;
use crate::error::Result;
use crate::ops::attention_layout::{BLOCK, Sizes};
use crate::ops::attention_scores::Scores;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

/// Which keys a query sees and how scores are shaped. Always causal: a token sees itself and what came before it.
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// Multiplies q·k, usually 1/√dim.
    pub scale: f32,
    /// A token sees this many tokens including itself; `None` for all.
    pub window: Option<usize>,
    /// Scores pass through cap·tanh(score/cap).
    pub soft_cap: Option<f32>,
    /// What the factors of its products are rounded to, f32 or bf16.
    pub precision: Precision,
}

impl Tensor {
    /// self: queries [time, heads, dim]; `k`, `v`: [keys, kv_heads, dim], heads a multiple of kv_heads; `starts`: u32
    /// [time], the first key each query may see. The queries are the last `time` of the keys. Gives [time, heads, dim].
    pub fn attention(
        &self,
        k: &Tensor,
        v: &Tensor,
        starts: &Tensor,
        attention: Attention,
    ) -> Result<Tensor> {
        apply(attention, &[self, k, v, starts])
    }
}

impl Op for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let (q, k, v, starts) = (x[0].shape(), x[1].shape(), x[2].shape(), x[3].shape());
        let fits = q.len() == 3
            && k.len() == 3
            && v == k
            && q[2] == k[2]
            && q[2] > 0
            && q[0] <= k[0]
            && k[1] > 0
            && q[1].is_multiple_of(k[1])
            && starts[..] == q[..1];
        if !fits {
            bail!(
                Internal,
                "attention: q {q} must be [time, heads, dim], k {k} and v {v} [keys, kv_heads, dim], starts {starts} [time]"
            );
        }
        if self.window == Some(0) {
            bail!(
                Internal,
                "attention: a window of 0 hides a token from itself"
            );
        }
        let before = k[0] - q[0];
        for (time, &start) in x[3].ids()?.iter().enumerate() {
            if start as usize > before + time {
                let last = before + time;
                bail!(
                    Internal,
                    "attention: query {time} starts at key {start} but its own is {last}"
                );
            }
        }
        Ok(q.clone())
    }

    /// Saves the log-sum-exp of each row of scores, [heads, time].
    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (q, k, v, starts) = (x[0].values()?, x[1].values()?, x[2].values()?, x[3].ids()?);
        let sizes = Sizes::of(x[0].shape(), x[1].shape());
        let Sizes {
            time,
            heads,
            dim,
            keys,
            ..
        } = sizes;
        let mut saved = vec![0.0; heads * time];
        if time == 0 {
            return Ok(Some(Tensor::new(saved, [heads, time])?));
        }
        let kernel = Kernel::of(self.precision)?;
        // For each key/value head: keys [dim, keys], and values [keys, dim].
        let lay_out = |task: usize| match task % 2 {
            0 => Strips::of(kernel, (dim, keys), sizes.kv(k, task / 2).transposed()),
            _ => Strips::of(kernel, (keys, dim), sizes.kv(v, task / 2)),
        };
        let laid_out = (0..2 * sizes.kv_heads).into_par_iter().map(lay_out);
        let laid_out: Vec<Strips> = laid_out.collect();
        let one =
            |room: &mut Room, (index, (out, log_sums)): (usize, (Vec<&mut [f32]>, &mut [f32]))| {
                let (head, block) = (index / sizes.blocks(), sizes.block(index % sizes.blocks()));
                let [keys, values] = &laid_out[2 * sizes.kv_head(head)..][..2] else {
                    unreachable!("two of each head")
                };
                let seen = self.visible_to(kernel, &sizes, starts, &block);
                let mut scores = Buffer::stale(block.len() * seen.len());
                let of_head = Scores {
                    sizes: &sizes,
                    q,
                    head,
                    keys,
                };
                of_head.of(self, &block, &seen, &mut scores, room);
                let rows = scores.chunks_mut(seen.len()).zip(log_sums);
                for (time, (row, log_sum)) in block.clone().zip(rows) {
                    let own = self.visible(&sizes, starts, time);
                    *log_sum = softmax(row, own.start - seen.start..own.end - seen.start);
                }
                let mut y = Buffer::stale(block.len() * dim);
                let (p, values) = (View::rows(&scores, seen.len()), values.terms(seen));
                matmul(block.len(), p, values, Old::Replaced, &mut y, dim, room);
                for (out, y) in out.into_iter().zip(y.chunks(dim)) {
                    out.copy_from_slice(y);
                }
            };
        let log_sums = saved
            .chunks_mut(time)
            .flat_map(|head| head.chunks_mut(BLOCK));
        let tasks: Vec<_> = sizes
            .by_head_and_block(y)
            .into_iter()
            .zip(log_sums)
            .collect();
        tasks
            .into_par_iter()
            .enumerate()
            .with_max_len(1)
            .for_each_init(Room::default, one);
        Ok(Some(Tensor::new(saved, [heads, time])?))
    }

    fn reads(&self) -> Reads {
        Reads::inputs(&[0, 1, 2, 3]).and_output()
    }

    fn vjp(
        &self,
        x: &[Tensor],
        _wanted: &[bool],
        y: &Tensor,
        saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let Some(log_sums) = saved else {
            bail!(Internal, "attention: the forward pass saved no log-sum-exp");
        };
        let [dq, dk, dv] = self.gradients(x, y, log_sums, dy)?;
        Ok(vec![Some(dq), Some(dk), Some(dv), None])
    }
}

vectorised! {
    /// Turns the scores `row[seen]` into probabilities and the rest into zeros; returns the log-sum-exp.
    fn softmax(row: &mut [f32], seen: Range<usize>) -> f32 {
        row[..seen.start].fill(0.0);
        row[seen.end..].fill(0.0);
        let row = &mut row[seen];
        let max = max(row);
        let sum = replace_and_sum(row, |score| {
            let p = exp(score - max);
            (p, p)
        });
        let inverse = 1.0 / sum;
        row.iter_mut().for_each(|p| *p *= inverse);
        max + sum.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{check, ids, random, scaled, values};

    const PLAIN: Attention = Attention {
        scale: 0.7,
        window: None,
        soft_cap: None,
        precision: Precision::F32,
    };

    /// softmax(scale·q·kᵀ + mask)·v, one query and head at a time.
    fn formula(of: Attention, sizes: Sizes, x: &[Vec<f64>]) -> Vec<f64> {
        let Sizes {
            time,
            heads,
            dim,
            keys,
            kv_heads,
        } = sizes;
        let row = |x: &[f64], at: usize| x[at * dim..(at + 1) * dim].to_vec();
        let mut y = Vec::new();
        for (at, head) in (0..time).flat_map(|at| (0..heads).map(move |head| (at, head))) {
            let own = at + keys - time;
            let sees = |key: &usize| {
                *key >= x[3][at] as usize && of.window.is_none_or(|window| own - key < window)
            };
            let kv = |key: usize| key * kv_heads + head * kv_heads / heads;
            let seen: Vec<usize> = (0..=own).filter(sees).collect();
            let q = row(&x[0], at * heads + head);
            let weight = |&key: &usize| {
                let k = row(&x[1], kv(key));
                let score = q.iter().zip(&k).map(|(q, k)| q * k).sum::<f64>() * f64::from(of.scale);
                let cap = |cap: f32| f64::from(cap) * (score / f64::from(cap)).tanh();
                of.soft_cap.map_or(score, cap).exp()
            };
            let weights: Vec<f64> = seen.iter().map(weight).collect();
            let total: f64 = weights.iter().sum();
            for channel in 0..dim {
                let v = seen.iter().map(|&key| x[2][kv(key) * dim + channel]);
                y.push(v.zip(&weights).map(|(v, w)| v * w).sum::<f64>() / total);
            }
        }
        y
    }

    fn follows(of: Attention, [time, heads, dim, keys, kv_heads]: [usize; 5], starts: &[u32]) {
        let sizes = Sizes {
            time,
            heads,
            dim,
            keys,
            kv_heads,
        };
        check(
            &[
                scaled([time, heads, dim], 2.0),
                scaled([keys, kv_heads, dim], 2.0),
                values([keys, kv_heads, dim]),
                ids(starts),
            ],
            |x| x[0].attention(&x[1], &x[2], &x[3], of),
            |x| formula(of, sizes, x),
        );
    }

    #[test]
    fn one_head_and_grouped_heads_follow_the_formula() {
        follows(PLAIN, [1, 1, 1, 1, 1], &[0]);
        follows(PLAIN, [7, 1, 3, 7, 1], &[0; 7]);
        follows(PLAIN, [7, 6, 5, 7, 2], &[0; 7]);
        follows(PLAIN, [9, 3, 33, 9, 3], &[0; 9]);
    }

    #[test]
    fn several_blocks_of_queries_follow_the_formula() {
        let time = 2 * BLOCK + 1;
        follows(PLAIN, [time, 2, 2, time, 1], &vec![0; time]);
    }

    #[test]
    fn windows_and_soft_caps_follow_the_formula() {
        for window in [1, 3, 7, 100] {
            let window = Some(window);
            let soft_cap = None;
            follows(
                Attention {
                    window,
                    soft_cap,
                    ..PLAIN
                },
                [9, 2, 3, 9, 1],
                &[0; 9],
            );
        }
        let (window, soft_cap) = (None, Some(1.5));
        follows(
            Attention {
                window,
                soft_cap,
                ..PLAIN
            },
            [9, 2, 3, 9, 1],
            &[0; 9],
        );
        let window = Some(5);
        let time = BLOCK + 6;
        let capped = Attention {
            window,
            soft_cap,
            ..PLAIN
        };
        follows(capped, [time, 1, 2, time, 1], &vec![0; time]);
    }

    #[test]
    fn samples_side_by_side_do_not_see_each_other() {
        let starts = [0, 0, 0, 3, 4, 4, 4, 4, 4];
        follows(PLAIN, [9, 4, 3, 9, 2], &starts);
        let window = Some(2);
        follows(Attention { window, ..PLAIN }, [9, 2, 3, 9, 1], &starts);
        let starts: Vec<u32> = (0..70).map(|at| if at < 67 { 0 } else { 67 }).collect();
        follows(PLAIN, [70, 1, 2, 70, 1], &starts);
    }

    #[test]
    fn new_queries_see_the_keys_of_a_cache() {
        follows(PLAIN, [3, 2, 5, 10, 1], &[0; 3]);
        follows(PLAIN, [1, 4, 3, 33, 2], &[0]);
        let window = Some(4);
        follows(Attention { window, ..PLAIN }, [2, 2, 3, 9, 2], &[1, 8]);
    }

    #[test]
    fn large_scores_stay_finite() {
        let sharp = Attention {
            scale: 1e6,
            ..PLAIN
        };
        let x = random([7, 2, 3]);
        let starts = Tensor::of_u32(vec![0; 7], [7]).unwrap();
        let y = x.attention(&x, &x, &starts, sharp).unwrap();
        assert!(y.values().unwrap().iter().all(|y| y.abs() <= 1.0));
    }

    #[test]
    fn no_queries_give_no_rows_and_no_gradient() {
        let (q, k) = (random([0, 2, 3]).tracked_leaf(), random([4, 1, 3]));
        let starts = Tensor::of_u32(vec![], [0]).unwrap();
        let y = q.attention(&k, &k, &starts, PLAIN).unwrap();
        let grads = crate::ops::check::gradients(&y, &[]);
        assert_eq!(grads.get(&q).unwrap().shape()[..], [0, 2, 3]);
    }

    #[test]
    fn inputs_that_do_not_belong_together_are_refused() {
        let (q, k) = (random([2, 4, 3]), random([3, 2, 3]));
        let starts = |starts: &[u32]| Tensor::of_u32(starts.to_vec(), [starts.len()]).unwrap();
        let good = starts(&[1, 2]);
        assert!(q.attention(&k, &k, &good, PLAIN).is_ok());
        for (q, k, v) in [
            (&q, &k, &random([2, 2, 3])),
            (&q, &random([1, 2, 3]), &random([1, 2, 3])),
            (&q, &random([3, 3, 3]), &random([3, 3, 3])),
            (&q, &random([3, 0, 3]), &random([3, 0, 3])),
            (&random([2, 4, 2]), &k, &k),
            (&random([2, 12]), &k, &k),
        ] {
            assert!(
                q.attention(k, v, &good, PLAIN).is_err(),
                "{q:?} {k:?} {v:?}"
            );
        }
        for hostile in [&[2, 0][..], &[0, 3], &[0, u32::MAX], &[0], &[0, 0, 0]] {
            assert!(
                q.attention(&k, &k, &starts(hostile), PLAIN).is_err(),
                "{hostile:?}"
            );
        }
        let window = Some(0);
        let blind = Attention { window, ..PLAIN };
        assert!(q.attention(&k, &k, &good, blind).is_err());
    }
}
