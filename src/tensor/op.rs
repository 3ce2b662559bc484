//! One differentiable operation. Each lives in its own file under `ops/`; nothing can be an op without a gradient.

use std::fmt::Debug;
use std::sync::Arc;

use crate::backend::Buffer;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{Inner, Node, Tensor};

/// The tensors whose values the gradient of an op needs. It may ask for the shape of any.
#[derive(Debug, Clone, Copy)]
pub struct Reads {
    inputs: &'static [usize],
    output: bool,
}

impl Reads {
    pub const NOTHING: Reads = Reads::inputs(&[]);

    /// Only these inputs, by number.
    pub const fn inputs(inputs: &'static [usize]) -> Reads {
        let output = false;
        Reads { inputs, output }
    }

    /// The result too.
    pub const fn and_output(self) -> Reads {
        let output = true;
        Reads { output, ..self }
    }

    pub fn input(&self, index: usize) -> bool {
        self.inputs.contains(&index)
    }
}

pub trait Op: Debug + Send + Sync {
    /// The stem of the op's file, used in messages.
    fn name(&self) -> &'static str;

    /// Checks the inputs, then sizes the result.
    fn shape(&self, x: &[&Tensor]) -> Result<Shape>;

    /// Computes `y` from `x`, every value of it whatever was there: the reference that every backend is tested against.
    /// Returns what `vjp` needs beyond the inputs and the result, if anything.
    fn cpu(&self, x: &[&Tensor], y: &mut [f32]) -> Result<Option<Tensor>>;

    /// What [`Op::vjp`] reads; only that is kept for it.
    fn reads(&self) -> Reads;

    /// Whether the result is computed again for a gradient that reads it, instead of kept: for ops that pass once over
    /// inputs all of which they keep anyway.
    fn again(&self) -> bool {
        false
    }

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

/// The result of `op` and what its gradient needs beside it.
pub fn compute(op: &dyn Op, inputs: &[&Tensor]) -> Result<(Tensor, Option<Tensor>)> {
    let shape = op.shape(inputs)?;
    let mut values = Buffer::stale(shape.elements());
    let saved = op.cpu(inputs, &mut values)?;
    Ok((Tensor::of(values, shape)?, saved))
}

/// Runs `op` where its inputs live and remembers how the result came to be when an input is tracked.
pub fn apply(op: impl Op + 'static, inputs: &[&Tensor]) -> Result<Tensor> {
    let (y, saved) = compute(&op, inputs)?;
    if !inputs.iter().any(|input| input.tracked()) {
        return Ok(y);
    }
    let reads = op.reads();
    let kept = |(index, input): (usize, &&Tensor)| match reads.input(index) {
        true if !input.comes_again() => (*input).clone(),
        _ => input.without_values(),
    };
    let output = match reads.output {
        true => y.clone(),
        false => y.without_values(),
    };
    let node = Node::Op {
        op: Arc::new(op),
        inputs: inputs.iter().enumerate().map(kept).collect(),
        output,
        saved,
    };
    let Inner { bytes, shape, .. } = &*y.0;
    let node = Some(Arc::new(node));
    Ok(Tensor::build(bytes.clone(), shape.clone(), true, node))
}
