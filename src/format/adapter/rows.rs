//! The two orders of llama's query and key rows, and so of the rows of B.
//!
//! Hugging Face keeps the first halves of a head's rotary pairs, then the second halves; GGUF files of the llama
//! architecture put the two of a pair side by side. A and all other layers are the same in both.
//! Source: `LlamaModel.permute` of llama.cpp's `convert_hf_to_gguf.py`.

use crate::bail;
use crate::error::Result;
use crate::format::adapter::Base;
use crate::lora::{Matrix, Pair};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    HuggingFace,
    Gguf,
}

impl Base {
    /// The pair of the layer `path`, with the rows of B and DoRA's magnitudes moved from one order into the other.
    pub fn reorder_pair(
        &self,
        path: &str,
        pair: Pair,
        from: RowOrder,
        to: RowOrder,
    ) -> Result<Pair> {
        let Pair { a, b, magnitude } = pair;
        let column = |values: Vec<f32>| Matrix {
            rows: values.len(),
            columns: 1,
            values,
        };
        let lengths = magnitude.map(|values| self.reorder(path, column(values), from, to));
        Ok(Pair {
            a,
            b: self.reorder(path, b, from, to)?,
            magnitude: lengths.transpose()?.map(|lengths| lengths.values),
        })
    }

    /// B of the layer `path` [out, rank], with its rows moved from one order into the other where they differ.
    pub fn reorder(&self, path: &str, b: Matrix, from: RowOrder, to: RowOrder) -> Result<Matrix> {
        let heads = match path.rsplit('.').next() {
            Some("q_proj") => self.heads,
            Some("k_proj") => self.kv_heads,
            _ => return Ok(b),
        };
        if from == to || self.architecture != "llama" {
            return Ok(b);
        }
        if heads == 0 || !b.rows.is_multiple_of(2 * heads) {
            bail!(
                BadAdapter,
                "{path}: the {} rows of B are not whole rotary pairs of {heads} heads",
                b.rows
            );
        }
        let half = b.rows / heads / 2;
        let mut values = Vec::with_capacity(b.values.len());
        for row in 0..b.rows {
            let (head, within) = (row / (2 * half), row % (2 * half));
            let source = match to {
                RowOrder::Gguf => within % 2 * half + within / 2,
                RowOrder::HuggingFace => within % half * 2 + within / half,
            };
            let start = (head * 2 * half + source) * b.columns;
            values.extend(&b.values[start..start + b.columns]);
        }
        Ok(Matrix { values, ..b })
    }
}

#[cfg(test)]
mod tests {
    use super::RowOrder::{Gguf, HuggingFace};
    use super::*;
    use crate::format::adapter::tests::base;

    /// Two heads of six rows of one column, numbered.
    fn rows() -> Matrix {
        Matrix {
            rows: 12,
            columns: 1,
            values: (0..12).map(|row| row as f32).collect(),
        }
    }

    #[test]
    fn pairs_move_side_by_side_and_back() {
        let base = base("llama", 2, 1);
        let moved = base.reorder("x.q_proj", rows(), HuggingFace, Gguf).unwrap();
        let expected = [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11].map(|row| row as f32);
        assert_eq!(moved.values, expected);
        let back = base.reorder("x.q_proj", moved, Gguf, HuggingFace).unwrap();
        assert_eq!(back, rows());
    }

    #[test]
    fn keys_have_their_own_number_of_heads() {
        let base = base("llama", 2, 1);
        let moved = base.reorder("x.k_proj", rows(), HuggingFace, Gguf).unwrap();
        assert_eq!(moved.values[..4], [0.0, 6.0, 1.0, 7.0]);
    }

    #[test]
    fn other_layers_and_architectures_stay() {
        for (architecture, path) in [("llama", "x.v_proj"), ("qwen2", "x.q_proj")] {
            let base = base(architecture, 2, 1);
            let same = base.reorder(path, rows(), HuggingFace, Gguf).unwrap();
            assert_eq!(same, rows(), "{architecture} {path}");
        }
    }

    #[test]
    fn rows_that_are_no_pairs_are_refused() {
        let base = base("llama", 4, 4);
        let error = base.reorder("x.q_proj", rows(), HuggingFace, Gguf);
        assert_eq!(
            error.unwrap_err().message,
            "x.q_proj: the 12 rows of B are not whole rotary pairs of 4 heads"
        );
    }
}
