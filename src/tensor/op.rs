//! One differentiable operation. Each lives in its own file under `ops/`; nothing can be an op without a gradient.

use std::fmt::Debug;
use std::sync::Arc;

use crate::backend::{Buffer, Bytes};
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Node, Tensor};

pub trait Op: Debug + Send + Sync {
    /// The stem of the op's file, used in messages.
    fn name(&self) -> &'static str;

    /// Checks the inputs, then sizes the result.
    fn shape(&self, x: &[&Tensor]) -> Result<Shape>;

    /// Computes `y` from `x`, every value of it whatever was there: the reference that every backend is tested against.
    /// Returns what `vjp` needs beyond the inputs and the result, if anything.
    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>>;

    /// The gradients of the inputs given `dy`, that of the result. `x` and `y` come without history, so nothing here is
    /// recorded; `None` stands for an input with `wanted[i]` false, and must be returned for ids and positions.
    fn vjp(
        &self,
        x: &[Tensor],
        wanted: &[bool],
        y: &Tensor,
        saved: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<Vec<Option<Tensor>>>;
}

/// Runs `op` where its inputs live and remembers how the result came to be when an input is tracked.
pub fn apply(op: impl Op + 'static, inputs: &[&Tensor]) -> Result<Tensor> {
    let shape = op.shape(inputs)?;
    let mut values = Buffer::stale(shape.elements());
    let saved = op.cpu(inputs, &mut values)?;
    let tracked = inputs.iter().any(|input| input.tracked());
    let node = tracked.then(|| Node::Op {
        op: Arc::new(op),
        inputs: inputs.iter().map(|&input| input.clone()).collect(),
        saved,
    });
    Ok(Tensor::build(Bytes::of(values), shape, tracked, node))
}
