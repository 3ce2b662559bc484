//! y = a·b for two tensors of the graph, each maybe transposed: the products of an adapter.

use crate::backend::cpu::{View, matmul};
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Op, Tensor, apply};

/// Whether an operand enters the product as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    AsIs,
    Transposed,
}

#[derive(Debug)]
struct MatMul {
    a: Side,
    b: Side,
}

impl Tensor {
    /// self·other: [.., k] x [k, n] gives [.., n].
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        let (a, b) = (Side::AsIs, Side::AsIs);
        apply(MatMul { a, b }, &[self, other])
    }

    /// self·otherᵀ: [.., k] x [n, k] gives [.., n].
    pub fn matmul_t(&self, other: &Tensor) -> Result<Tensor> {
        let (a, b) = (Side::AsIs, Side::Transposed);
        apply(MatMul { a, b }, &[self, other])
    }

    /// selfᵀ·other: [.., m] x [.., n] gives [m, n], summed over all rows.
    pub fn t_matmul(&self, other: &Tensor) -> Result<Tensor> {
        let (a, b) = (Side::Transposed, Side::AsIs);
        apply(MatMul { a, b }, &[self, other])
    }
}

/// A tensor seen as a matrix: all axes but the last are rows.
fn matrix(x: &Tensor, side: Side) -> (usize, usize) {
    let (rows, columns) = (x.shape().rows(), x.shape().last());
    match side {
        Side::AsIs => (rows, columns),
        Side::Transposed => (columns, rows),
    }
}

fn view(x: &Tensor, side: Side) -> Result<View<'_>> {
    let stored = View::rows(x.values()?, x.shape().last());
    Ok(match side {
        Side::AsIs => stored,
        Side::Transposed => stored.transposed(),
    })
}

impl Op for MatMul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn shape(&self, x: &[&Tensor]) -> Result<Shape> {
        let ((m, k), (inner, n)) = (matrix(x[0], self.a), matrix(x[1], self.b));
        if k != inner {
            let (a, b) = (x[0].shape(), x[1].shape());
            bail!(Internal, "matmul: {a} ({:?}) by {b} ({:?})", self.a, self.b);
        }
        Ok(match self.a {
            Side::AsIs => x[0].shape().with_last(n),
            Side::Transposed => Shape::from([m, n]),
        })
    }

    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>> {
        let ((m, k), (_, n)) = (matrix(x[0], self.a), matrix(x[1], self.b));
        let threads = rayon::current_num_threads();
        let (a, b) = (view(x[0], self.a)?, view(x[1], self.b)?);
        matmul((m, n, k), 1.0, a, b, 0.0, y, n, threads);
        Ok(None)
    }

    /// y = a·b: da = dy·bᵀ, db = aᵀ·dy.  y = a·bᵀ: da = dy·b, db = dyᵀ·a.  y = aᵀ·b: da = b·dyᵀ, db = a·dy.
    fn vjp(
        &self,
        x: &[Tensor],
        wanted: &[bool],
        _y: &Tensor,
        _saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let (a, b) = (&x[0], &x[1]);
        let da = || match (self.a, self.b) {
            (Side::AsIs, Side::AsIs) => dy.matmul_t(b),
            (Side::AsIs, Side::Transposed) => dy.matmul(b),
            (Side::Transposed, _) => b.matmul_t(dy),
        };
        let db = || match (self.a, self.b) {
            (Side::AsIs, Side::AsIs) => a.t_matmul(dy),
            (Side::AsIs, Side::Transposed) => dy.t_matmul(a),
            (Side::Transposed, _) => a.matmul(dy),
        };
        Ok(vec![
            wanted[0].then(da).transpose()?,
            wanted[1].then(db).transpose()?,
        ])
    }
}
