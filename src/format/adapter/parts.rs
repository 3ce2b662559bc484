//! Puts the parts of an adapter file together, layer by layer, and holds them against the base model.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Base, RowOrder, base, refused};
use crate::error::{Error, Result};
use crate::format::catalog::in_file;
use crate::lora::{LayerKind, Matrix, Pair, Part};
use crate::quant::Weight;

/// What has been read so far, by path of the layer.
#[derive(Default)]
pub struct Parts<'a> {
    layers: BTreeMap<String, BTreeMap<Part, (&'a str, Weight)>>,
}

impl<'a> Parts<'a> {
    /// Takes the tensor `name` as a part of the layer at `path`. Values are read once everything has been checked.
    pub fn add(&mut self, path: String, part: Part, name: &'a str, weight: Weight) {
        self.layers
            .entry(path)
            .or_default()
            .insert(part, (name, weight));
    }

    /// All pairs, rows in the order of the base.
    ///
    /// Errors: none at all, one part without another, a layer the base does not have, shapes that do not fit.
    pub fn finish(
        self,
        file: &Path,
        base: &Base,
        order: RowOrder,
    ) -> Result<BTreeMap<String, Pair>> {
        if self.layers.is_empty() {
            return Err(refused(file, "there is no pair of A and B in it".into()));
        }
        let mut pairs = BTreeMap::new();
        for (path, parts) in self.layers {
            let pair = pair(file, base, order, &path, parts)?;
            pairs.insert(path, pair);
        }
        Ok(pairs)
    }
}

fn pair(
    file: &Path,
    base: &Base,
    order: RowOrder,
    path: &str,
    mut parts: BTreeMap<Part, (&str, Weight)>,
) -> Result<Pair> {
    let failed = |message| Err(refused(file, message));
    let (a, b) = match (parts.remove(&Part::A), parts.remove(&Part::B)) {
        (Some((_, a)), Some((_, b))) => (a, b),
        (Some((name, _)), None) => return failed(format!("{name} is there without its B")),
        (None, Some((name, _))) => return failed(format!("{name} is there without its A")),
        (None, None) => return failed(format!("{path} has neither A nor B")),
    };
    let magnitude = parts.remove(&Part::Magnitude);
    let Some((outputs, inputs)) = base.layer(path) else {
        return Err(unknown(file, base, path));
    };
    // llama.cpp looks rows of A up by token, so its files hold that of the embedding table the other way round.
    let turned = order == RowOrder::Gguf && LayerKind::of(path) == LayerKind::Embedding;
    let (rank, columns) = match (&a.shape()[..], turned) {
        (&[rank, columns], false) | (&[columns, rank], true) => (rank, columns),
        _ => (0, 0),
    };
    if columns != inputs || b.shape()[..] != [outputs, rank] {
        let needed = match turned {
            false => format!("[rank, {inputs}]"),
            true => format!("[{inputs}, rank]"),
        };
        return failed(format!(
            "{path}: A is {} and B {}, a layer of [{outputs}, {inputs}] needs {needed} and [{outputs}, rank]",
            a.shape(),
            b.shape()
        ));
    }
    let a = match turned {
        false => matrix(&a)?,
        true => transposed(&matrix(&a)?),
    };
    let mut pair = Pair::new(a, matrix(&b)?);
    if let Some((name, lengths)) = magnitude {
        if lengths.shape().elements() != outputs {
            return failed(format!("{name} is {}, not [{outputs}]", lengths.shape()));
        }
        pair.magnitude = Some(lengths.to_f32()?);
    }
    let found = pair.check_finite(path);
    found.map_err(|error| in_file(file, error))?;
    base.reorder_pair(path, pair, order, base.row_order())
}

fn unknown(file: &Path, base: &Base, path: &str) -> Error {
    let is_tied = base.tied && (path == base::HEAD || path == base::EMBEDDING);
    refused(
        file,
        match is_tied {
            true => format!(
                "it has weights for {path}, but this model's head is its embedding table: {}",
                base::TIED
            ),
            false => format!(
                "it has weights for {path}, a layer this model does not have; it was made for another base"
            ),
        },
    )
}

pub(super) fn matrix(weight: &Weight) -> Result<Matrix> {
    Ok(Matrix {
        rows: weight.shape().rows(),
        columns: weight.shape().last(),
        values: weight.to_f32()?,
    })
}

/// The same values with rows for columns.
pub fn transposed(matrix: &Matrix) -> Matrix {
    let column = |column: usize| matrix.values.iter().skip(column).step_by(matrix.columns);
    Matrix {
        rows: matrix.columns,
        columns: matrix.rows,
        values: (0..matrix.columns).flat_map(column).copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transposed_matrix_has_rows_for_columns() {
        let matrix = Matrix {
            rows: 2,
            columns: 3,
            values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        };
        let turned = transposed(&matrix);
        assert_eq!((turned.rows, turned.columns), (3, 2));
        assert_eq!(turned.values, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(transposed(&turned), matrix);
    }
}
