//! Puts the A and B of an adapter file together and holds them against the base model.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Base, RowOrder, base, check_finite, refused};
use crate::error::Result;
use crate::format::catalog::in_file;
use crate::lora::{Matrix, Pair};
use crate::quant::Weight;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    A,
    B,
}

/// What has been read so far, by path of the layer.
#[derive(Default)]
pub struct Halves<'a> {
    layers: BTreeMap<String, [Option<(&'a str, Weight)>; 2]>,
}

impl<'a> Halves<'a> {
    /// Takes the tensor `name` as one half of the layer at `path`. Values are read once everything has been checked.
    pub fn add(&mut self, path: String, half: Half, name: &'a str, weight: Weight) {
        self.layers.entry(path).or_default()[half as usize] = Some((name, weight));
    }

    /// All pairs, rows in the order of the base, and their rank.
    ///
    /// Errors: none at all, one half alone, a layer the base does not have, shapes that do not fit, ranks that differ.
    pub fn finish(
        self,
        file: &Path,
        base: &Base,
        order: RowOrder,
    ) -> Result<(BTreeMap<String, Pair>, usize)> {
        let failed = |message| Err(refused(file, message));
        let mut pairs = BTreeMap::new();
        let mut known: Option<(String, usize)> = None;
        for (path, halves) in self.layers {
            let (a, b) = match halves {
                [Some((_, a)), Some((_, b))] => (a, b),
                [Some((name, _)), None] => {
                    return failed(format!("{name} is there without its B"));
                }
                [None, Some((name, _))] => {
                    return failed(format!("{name} is there without its A"));
                }
                [None, None] => continue,
            };
            let Some((outputs, inputs)) = base.layer(&path) else {
                return failed(match path == base::HEAD && base.tied {
                    true => format!(
                        "it has weights for {path}, but the head of this model is its embedding table"
                    ),
                    false => format!(
                        "it has weights for {path}, a layer this model does not have; it was made for another base"
                    ),
                });
            };
            let (rank, fits) = match (&a.shape()[..], &b.shape()[..]) {
                (&[rank, columns], &[rows, columns_of_b]) => (
                    rank,
                    (rows, columns) == (outputs, inputs) && rank == columns_of_b,
                ),
                _ => (0, false),
            };
            if !fits {
                return failed(format!(
                    "{path}: A is {} and B {}, a layer of [{outputs}, {inputs}] needs [rank, {inputs}] and [{outputs}, rank]",
                    a.shape(),
                    b.shape()
                ));
            }
            match &known {
                Some((first, other)) if *other != rank => {
                    return failed(format!(
                        "{first} has rank {other}, {path} has rank {rank}; only one rank for all layers can be trained"
                    ));
                }
                Some(_) => {}
                None => known = Some((path.clone(), rank)),
            }
            let b = base.reorder(&path, matrix(&b)?, order, base.row_order())?;
            let pair = Pair { a: matrix(&a)?, b };
            check_finite(&path, &pair).map_err(|error| in_file(file, error))?;
            pairs.insert(path, pair);
        }
        match known {
            Some((_, rank)) => Ok((pairs, rank)),
            None => failed("there is no pair of A and B in it".into()),
        }
    }
}

fn matrix(weight: &Weight) -> Result<Matrix> {
    Ok(Matrix {
        rows: weight.shape().rows(),
        columns: weight.shape().last(),
        values: weight.to_f32()?,
    })
}
