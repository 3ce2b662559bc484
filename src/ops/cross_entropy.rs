//! −log softmax(logits)[target] for every row: the loss where the logits are at hand (a head with an adapter).

use crate::backend::Buffer;
use crate::backend::cpu::{exp, for_items, for_rows, max, sum_of};
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

/// The target of a row that has no loss.
pub const IGNORED: u32 = u32::MAX;

#[derive(Debug)]
struct CrossEntropy;

impl Tensor {
    /// self: logits [time, vocab]; `targets`: u32 [time], [`IGNORED`] for none. Gives losses [time] in nats, 0 where ignored.
    pub fn cross_entropy(&self, targets: &Tensor) -> Result<Tensor> {
        apply(CrossEntropy, &[self, targets])
    }
}

/// Checks that every target is ignored or inside the vocabulary.
pub(super) fn check_targets(name: &str, rows: usize, vocab: usize, targets: &Tensor) -> Result<()> {
    if targets.shape()[..] != [rows] {
        bail!(
            Internal,
            "{name}: {rows} rows and targets {}",
            targets.shape()
        );
    }
    match targets
        .ids()?
        .iter()
        .find(|&&id| id != IGNORED && id as usize >= vocab)
    {
        Some(id) => bail!(
            BadData,
            "target id {id} is outside the model's vocabulary of {vocab}: tokenizer and model do not belong together"
        ),
        None => Ok(()),
    }
}

/// log Σ exp(row)
fn log_sum_exp(row: &[f32]) -> f32 {
    let max = max(row);
    max + sum_of(row, |z| exp(z - max)).ln()
}

impl Op for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let rows = x[0].shape().rows();
        check_targets("cross_entropy", rows, x[0].shape().last(), x[1])?;
        Ok(Shape::from([rows]))
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let (logits, targets, vocab) = (x[0].values()?, x[1].ids()?, x[0].shape().last());
        for_items(y, vocab, |row, loss| {
            let logits = &logits[row * vocab..(row + 1) * vocab];
            *loss = match targets[row] {
                IGNORED => 0.0,
                target => log_sum_exp(logits) - logits[target as usize],
            };
        });
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::inputs(&[0, 1])
    }

    /// dlogits = dy·(softmax(logits) − onehot(target))
    fn vjp(
        &self,
        x: &[Tensor],
        _wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let (logits, targets, dy) = (x[0].values()?, x[1].ids()?, dy.values()?);
        let vocab = x[0].shape().last();
        let mut dx = Buffer::zeros(logits.len());
        for_rows(&mut dx, vocab, |row, dx| {
            if targets[row] == IGNORED {
                return;
            }
            let logits = &logits[row * vocab..(row + 1) * vocab];
            let (log_sum, dy) = (log_sum_exp(logits), dy[row]);
            for (dx, z) in dx.iter_mut().zip(logits) {
                *dx = dy * exp(z - log_sum);
            }
            dx[targets[row] as usize] -= dy;
        });
        Ok(vec![Some(Tensor::of(dx, x[0].shape().clone())?), None])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::ops::check::{check, ids, random, scaled};

    #[test]
    fn losses_and_their_gradients_follow_the_formula() {
        for (rows, vocab) in [(1, 1), (3, 7), (7, 33), (4, 257)] {
            let mut targets: Vec<u32> = (0..rows).map(|row| (row * 5 % vocab) as u32).collect();
            if rows > 1 {
                targets[1] = IGNORED;
            }
            check(
                &[scaled([rows, vocab], 4.0), ids(&targets)],
                |x| x[0].cross_entropy(&x[1]),
                |x| {
                    let loss = |(row, target): (&[f64], &f64)| match *target as u32 {
                        IGNORED => 0.0,
                        target => {
                            row.iter().map(|z| z.exp()).sum::<f64>().ln() - row[target as usize]
                        }
                    };
                    x[0].chunks(vocab).zip(&x[1]).map(loss).collect()
                },
            );
        }
    }

    #[test]
    fn huge_logits_stay_finite() {
        let logits = Tensor::leaf(vec![1e4, -1e4, 0.0, -1e4, -1e4, 1e4], [2, 3]).unwrap();
        let targets = Tensor::of_u32(vec![1, 2], [2]).unwrap();
        let y = logits.cross_entropy(&targets).unwrap();
        assert_eq!(y.values().unwrap(), [2e4, 0.0]);
        let grads = crate::ops::check::gradients(&y, &[1.0, 1.0]);
        let expected = [1.0, -1.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(grads.get(&logits).unwrap().values().unwrap(), expected);
    }

    #[test]
    fn targets_outside_the_vocabulary_or_too_few_are_refused() {
        let targets = |ids: &[u32]| Tensor::of_u32(ids.to_vec(), [ids.len()]).unwrap();
        let error = random([2, 7]).cross_entropy(&targets(&[0, 7])).unwrap_err();
        assert_eq!(error.code, Code::BadData);
        assert!(random([2, 7]).cross_entropy(&targets(&[0])).is_err());
        let none = random([0, 7]).cross_entropy(&targets(&[])).unwrap();
        assert_eq!(none.shape()[..], [0]);
    }
}
