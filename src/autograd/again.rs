//! Results that were not kept because their op computes them again.

use crate::error::Result;
use crate::tensor::{Node, Op, Tensor, TensorId, compute};

/// The last of them: the gradients that read one mostly follow one another.
#[derive(Default)]
pub struct Again(Option<(TensorId, Tensor)>);

impl Again {
    /// The inputs of `op` without history, and with the values that its gradient reads.
    pub fn inputs(&mut self, op: &dyn Op, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let reads = op.reads();
        let input = |(index, x): (usize, &Tensor)| match reads.input(index) && !x.has_values() {
            true => self.result(x),
            false => Ok(x.detach()),
        };
        inputs.iter().enumerate().map(input).collect()
    }

    fn result(&mut self, x: &Tensor) -> Result<Tensor> {
        if let Some((id, known)) = &self.0
            && *id == x.id()
        {
            return Ok(known.clone());
        }
        let Some(Node::Op { op, inputs, .. }) = x.node() else {
            return Ok(x.detach());
        };
        self.0 = None;
        let inputs = self.inputs(op.as_ref(), inputs)?;
        let (known, _) = compute(op.as_ref(), &inputs.iter().collect::<Vec<_>>())?;
        self.0 = Some((x.id(), known.clone()));
        Ok(known)
    }

    /// Drops what no gradient reads any more, those of tensors from `id` on being done.
    pub fn forget_from(&mut self, id: TensorId) {
        self.0.take_if(|(known, _)| *known >= id);
    }
}
