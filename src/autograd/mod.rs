//! The chain rule: walks from outputs back to leaves and adds up gradients.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Result;
use crate::tensor::{Ctx, Grads, Node, Segment, SegmentCall, Tensor, TensorId};

/// Adds the gradients of every tracked leaf below `y` to `grads`, given `dy`, the gradient of `y`.
///
/// Tensors are visited from the newest to the oldest: an output is always newer than its inputs, so when a tensor is
/// reached, all its uses have been. A gradient is dropped as soon as it has been passed on.
pub fn backward(y: Tensor, dy: Tensor, grads: &mut Grads) -> Result<()> {
    walk(vec![(y, dy)], grads)
}

/// Runs `segment` again on `x`, this time with a graph, and walks it back: the backward of every local segment.
pub fn replay(
    segment: &dyn Segment,
    x: &[Tensor],
    dy: &[Option<Tensor>],
    ctx: &Ctx,
    grads: &mut Grads,
) -> Result<Vec<Option<Tensor>>> {
    let leaf = |x: &Tensor| {
        if x.tracked() {
            x.tracked_leaf()
        } else {
            x.clone()
        }
    };
    let leaves: Vec<Tensor> = x.iter().map(leaf).collect();
    let outputs = segment.forward(&leaves, ctx)?;
    let seeds = outputs
        .into_iter()
        .zip(dy)
        .filter_map(|(y, dy)| Some((y, dy.clone()?)));
    walk(seeds.collect(), grads)?;
    Ok(leaves.iter().map(|leaf| grads.take(leaf)).collect())
}

fn walk(seeds: Vec<(Tensor, Tensor)>, grads: &mut Grads) -> Result<()> {
    let mut pending = Pending::default();
    for (y, dy) in seeds {
        pending.add(&y, dy)?;
    }
    while let Some((_, (y, dy))) = pending.0.pop_last() {
        match y.node() {
            None => grads.add(y.id(), dy)?,
            Some(Node::Reshape(x)) => pending.add(x, dy.reshape(x.shape().clone())?)?,
            Some(Node::Op { op, inputs, saved }) => {
                let wanted: Vec<bool> = inputs.iter().map(Tensor::tracked).collect();
                let detached: Vec<Tensor> = inputs.iter().map(Tensor::detach).collect();
                let dx = op.vjp(&detached, &wanted, &y.detach(), saved.as_ref(), &dy)?;
                pending.pass_on(inputs, dx)?;
            }
            Some(Node::Segment { call, output }) => {
                // The outputs of one call are made together, so their ids are neighbours and this is the newest with a gradient.
                let mut all = vec![None; call.outputs];
                all[*output] = Some(dy);
                while let Some((index, dy)) = pending.pop_sibling(call) {
                    all[index] = Some(dy);
                }
                let dx = call
                    .segment
                    .backward(&call.inputs, &all, &call.ctx, grads)?;
                pending.pass_on(&call.inputs, dx)?;
            }
        }
    }
    Ok(())
}

/// Tensors whose gradient is partly or wholly known, by age.
#[derive(Default)]
struct Pending(BTreeMap<TensorId, (Tensor, Tensor)>);

impl Pending {
    fn add(&mut self, tensor: &Tensor, gradient: Tensor) -> Result<()> {
        if !tensor.tracked() {
            return Ok(());
        }
        let sum = match self.0.remove(&tensor.id()) {
            Some((_, known)) => known.plus(&gradient)?,
            None => gradient,
        };
        self.0.insert(tensor.id(), (tensor.clone(), sum));
        Ok(())
    }

    fn pass_on(&mut self, inputs: &[Tensor], gradients: Vec<Option<Tensor>>) -> Result<()> {
        for (input, gradient) in inputs.iter().zip(gradients) {
            if let Some(gradient) = gradient {
                self.add(input, gradient)?;
            }
        }
        Ok(())
    }

    /// Takes the newest pending tensor if it is another output of `call`.
    fn pop_sibling(&mut self, call: &Arc<SegmentCall>) -> Option<(usize, Tensor)> {
        let newest = self.0.last_entry()?;
        let index = match newest.get().0.node() {
            Some(Node::Segment {
                call: other,
                output,
            }) if Arc::ptr_eq(call, other) => *output,
            _ => return None,
        };
        Some((index, newest.remove().1))
    }
}
