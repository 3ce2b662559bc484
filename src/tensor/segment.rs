//! A span of layers run as a unit: forward without a graph, then a backward that replays it.
//! Gradient checkpointing, layer streaming and remote workers are this one mechanism.

use std::sync::Arc;

use crate::error::Result;
use crate::tensor::{Activations, Ctx, Grads, Node, Tensor};

pub trait Segment: Send + Sync {
    /// Runs the layers. `ctx` says whether to record a graph.
    fn forward(&self, x: &[Tensor], ctx: &Ctx) -> Result<Vec<Tensor>>;

    /// The gradients of `x` given those of the outputs; gradients of parameters are added to `grads`.
    /// A segment of this process calls `autograd::replay`.
    fn backward(
        &self,
        x: &[Tensor],
        dy: &[Option<Tensor>],
        ctx: &Ctx,
        grads: &mut Grads,
    ) -> Result<Vec<Option<Tensor>>>;
}

/// One forward pass through a segment: what its backward needs, and nothing of what happened inside.
pub struct SegmentCall {
    pub segment: Arc<dyn Segment>,
    pub inputs: Vec<Tensor>,
    pub ctx: Ctx,
    pub outputs: usize,
}

/// Runs `segment`, keeping what its backward needs or only its inputs, as `ctx` says.
pub fn run(segment: &Arc<dyn Segment>, x: &[Tensor], ctx: &Ctx) -> Result<Vec<Tensor>> {
    match ctx.activations {
        Activations::Kept => segment.forward(x, ctx),
        Activations::Replayed => checkpoint(segment, x, ctx),
    }
}

/// Runs `segment` keeping only its inputs when `ctx` records; otherwise just runs it.
pub fn checkpoint(segment: &Arc<dyn Segment>, x: &[Tensor], ctx: &Ctx) -> Result<Vec<Tensor>> {
    if !ctx.recording {
        return segment.forward(x, ctx);
    }
    let detached: Vec<Tensor> = x.iter().map(Tensor::detach).collect();
    let outputs = segment.forward(&detached, &ctx.without_recording())?;
    let call = Arc::new(SegmentCall {
        segment: segment.clone(),
        inputs: x.to_vec(),
        ctx: ctx.clone(),
        outputs: outputs.len(),
    });
    let with_history = |(output, y): (usize, &Tensor)| {
        let node = Node::Segment {
            call: call.clone(),
            output,
        };
        let (bytes, shape) = (y.0.bytes.clone(), y.0.shape.clone());
        Tensor::build(bytes, shape, true, Some(Arc::new(node)))
    };
    Ok(outputs.iter().enumerate().map(with_history).collect())
}
