//! The values of one layer's adapter outside a run: what files hold.

use crate::bail;
use crate::error::Result;

/// Values of one matrix, by rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub values: Vec<f32>,
}

/// The two factors of one layer: `a` [rank, in], `b` [out, rank]; of an embedding `a` [rank, vocab], `b` [width, rank].
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub a: Matrix,
    pub b: Matrix,
    /// DoRA's length of each output, [out]; none in a plain LoRA.
    pub magnitude: Option<Vec<f32>>,
}

impl Pair {
    /// A plain LoRA's.
    pub fn new(a: Matrix, b: Matrix) -> Pair {
        let magnitude = None;
        Pair { a, b, magnitude }
    }

    pub fn rank(&self) -> usize {
        self.a.rows
    }

    /// Refuses values that are an infinity or no number; `path` is the layer's, for the message.
    pub fn check_finite(&self, path: &str) -> Result<()> {
        for (name, matrix) in [("A", &self.a), ("B", &self.b)] {
            if let Some(at) = matrix.values.iter().position(|value| !value.is_finite()) {
                bail!(
                    NonFinite,
                    "{path}: {name}[{}, {}] of the adapter is {}",
                    at / matrix.columns,
                    at % matrix.columns,
                    matrix.values[at]
                );
            }
        }
        let lengths = self.magnitude.as_deref().unwrap_or_default();
        if let Some(at) = lengths.iter().position(|value| !value.is_finite()) {
            bail!(
                NonFinite,
                "{path}: magnitude[{at}] of the adapter is {}",
                lengths[at]
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn values_that_are_no_numbers_are_named_by_place() {
        let matrix = |rows, columns| Matrix {
            rows,
            columns,
            values: vec![1.0; rows * columns],
        };
        let mut pair = Pair::new(matrix(2, 3), matrix(4, 2));
        pair.magnitude = Some(vec![1.0; 4]);
        pair.check_finite("x").unwrap();
        pair.magnitude = Some(vec![1.0, f32::INFINITY, 1.0, 1.0]);
        let error = pair.check_finite("x").unwrap_err();
        assert_eq!(error.message, "x: magnitude[1] of the adapter is inf");
        pair.b.values[5] = f32::NAN;
        let error = pair.check_finite("x").unwrap_err();
        assert_eq!(error.code, Code::NonFinite);
        assert_eq!(error.message, "x: B[2, 1] of the adapter is NaN");
    }
}
