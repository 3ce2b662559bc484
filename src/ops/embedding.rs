//! Rows of a frozen table picked by id: y[t] = W[ids[t]].

use crate::bail;
use crate::error::Result;
use crate::quant::Weight;
use crate::shape::Shape;
use crate::tensor::{Op, Reads, Tensor, apply};

struct Embedding {
    table: Weight,
}

impl std::fmt::Debug for Embedding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Embedding({:?} {})",
            self.table.format(),
            self.table.shape()
        )
    }
}

impl Tensor {
    /// self: u32 ids [time]; `table` [vocab, width], frozen. Gives [time, width]; an id past the table is an error.
    pub fn embedding(&self, table: &Weight) -> Result<Tensor> {
        apply(
            Embedding {
                table: table.clone(),
            },
            &[self],
        )
    }
}

impl Op for Embedding {
    fn name(&self) -> &'static str {
        "embedding"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let vocab = self.table.shape().rows();
        if let Some(id) = x[0].ids()?.iter().find(|&&id| id as usize >= vocab) {
            bail!(
                BadData,
                "token id {id} is outside the model's vocabulary of {vocab}: tokenizer and model do not belong together"
            );
        }
        Ok(Shape::from([
            x[0].shape().elements(),
            self.table.shape().last(),
        ]))
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        for (row, &id) in y.chunks_mut(self.table.shape().last()).zip(x[0].ids()?) {
            self.table.unpack_rows(id as usize, row)?;
        }
        Ok(None)
    }

    fn reads(&self) -> Reads {
        Reads::NOTHING
    }

    fn vjp(
        &self,
        _x: &[Tensor],
        _wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        _dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![None])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::ops::check::{check, elements, ids, weight};
    use crate::quant::Format;

    #[test]
    fn rows_of_every_format_are_found_by_id() {
        for format in Format::ALL {
            let table = weight(format, 7, 256);
            let rows = elements(&table);
            check(
                &[ids(&[6, 0, 3, 3])],
                |x| x[0].embedding(&table),
                |x| {
                    let row = |id: &f64| &rows[*id as usize * 256..][..256];
                    x[0].iter().flat_map(row).copied().collect()
                },
            );
        }
    }

    #[test]
    fn an_id_outside_the_table_is_named() {
        let table = weight(Format::F32, 7, 3);
        let ids = Tensor::of_u32(vec![0, 7], [2]).unwrap();
        let error = ids.embedding(&table).unwrap_err();
        assert_eq!(error.code, Code::BadData);
        assert!(error.message.contains("token id 7"), "{}", error.message);
    }
}
