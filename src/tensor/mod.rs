//! Tensors of f32 (or u32 ids and positions), contiguous, maybe tracked; and the two traits that give them a history.

mod cache;
mod context;
mod grads;
mod op;
mod random;
mod segment;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::{Buffer, Bytes};
use crate::bail;
use crate::error::Result;
use crate::shape::Shape;

pub use cache::KvCache;
pub use context::{Activations, Ctx, Mode, Rows};
pub use grads::Grads;
pub use op::{Op, Reads, apply, compute};
pub use random::Random;
pub use segment::{Segment, SegmentCall, checkpoint, run};

/// Names one tensor. Ids grow with time, so an op's output always has a larger id than its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(u64);

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// An n-dimensional array, row-major. Cloning shares it; nothing changes its values.
///
/// A tracked tensor takes part in `autograd::backward`: a leaf (no node) receives a gradient, the others pass it on.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

struct Inner {
    id: TensorId,
    shape: Shape,
    bytes: Bytes,
    tracked: bool,
    node: Option<Arc<Node>>,
}

/// How a tracked tensor came to be.
pub enum Node {
    Op {
        op: Arc<dyn Op>,
        /// Without their values where the op does not read them, or where they come again.
        inputs: Vec<Tensor>,
        /// The result, without its values where the op does not read them.
        output: Tensor,
        saved: Option<Tensor>,
    },
    /// Output number `output` of a checkpointed segment.
    Segment {
        call: Arc<SegmentCall>,
        output: usize,
    },
    /// Another tensor in another shape, without its values.
    Reshape(Tensor),
}

impl Tensor {
    /// Untracked values in the given shape; an error when the counts differ.
    pub fn new(values: Vec<f32>, shape: impl Into<Shape>) -> Result<Tensor> {
        Self::of(values.into(), shape)
    }

    /// [`Tensor::new`] of values in a buffer.
    pub fn of(values: Buffer, shape: impl Into<Shape>) -> Result<Tensor> {
        Self::of_bytes(Bytes::of(values), shape.into())
    }

    /// Untracked ids, positions or row starts.
    pub fn of_u32(values: Vec<u32>, shape: impl Into<Shape>) -> Result<Tensor> {
        Self::of_bytes(Bytes::from_u32(values), shape.into())
    }

    /// A tracked leaf: a parameter, or the input of a replayed segment.
    pub fn leaf(values: Vec<f32>, shape: impl Into<Shape>) -> Result<Tensor> {
        Ok(Self::new(values, shape)?.tracked_leaf())
    }

    fn of_bytes(bytes: Bytes, shape: Shape) -> Result<Tensor> {
        if bytes.len() != shape.elements() * 4 {
            bail!(
                Internal,
                "{} values do not fill a tensor of shape {shape}",
                bytes.len() / 4
            );
        }
        Ok(Self::build(bytes, shape, false, None))
    }

    fn build(bytes: Bytes, shape: Shape, tracked: bool, node: Option<Arc<Node>>) -> Tensor {
        Tensor(Arc::new(Inner {
            id: TensorId(NEXT_ID.fetch_add(1, Ordering::Relaxed)),
            shape,
            bytes,
            tracked,
            node,
        }))
    }

    pub fn id(&self) -> TensorId {
        self.0.id
    }

    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    pub fn tracked(&self) -> bool {
        self.0.tracked
    }

    pub fn node(&self) -> Option<&Node> {
        self.0.node.as_deref()
    }

    /// Whether its op computes it again for the gradients that read it.
    fn comes_again(&self) -> bool {
        matches!(self.node(), Some(Node::Op { op, .. }) if op.again())
    }

    /// Whether its values are here, not only its place in the history.
    pub fn has_values(&self) -> bool {
        self.0.bytes.len() == self.0.shape.elements() * 4
    }

    /// The values as f32.
    pub fn values(&self) -> Result<&[f32]> {
        if !self.has_values() {
            bail!(Internal, "the values of {self:?} were not kept");
        }
        self.0.bytes.as_f32()
    }

    /// The same tensor for the graph alone: its place in the history, but none of its memory.
    fn without_values(&self) -> Tensor {
        Tensor(Arc::new(Inner {
            id: self.0.id,
            shape: self.0.shape.clone(),
            bytes: Bytes::from_u32(Vec::new()),
            tracked: self.0.tracked,
            node: self.0.node.clone(),
        }))
    }

    /// The values as u32, for tensors made by [`Tensor::of_u32`].
    pub fn ids(&self) -> Result<&[u32]> {
        self.0.bytes.as_u32()
    }

    /// The same values without history; free.
    pub fn detach(&self) -> Tensor {
        if !self.0.tracked {
            return self.clone();
        }
        Self::build(self.0.bytes.clone(), self.0.shape.clone(), false, None)
    }

    /// The same values as a new tracked leaf; free.
    pub fn tracked_leaf(&self) -> Tensor {
        Self::build(self.0.bytes.clone(), self.0.shape.clone(), true, None)
    }

    /// The same values in another shape of as many elements; free.
    pub fn reshape(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        if shape.elements() != self.0.shape.elements() {
            bail!(Internal, "reshape: {} to {shape}", self.0.shape);
        }
        let node = || Arc::new(Node::Reshape(self.without_values()));
        let node = self.0.tracked.then(node);
        Ok(Self::build(
            self.0.bytes.clone(),
            shape,
            self.0.tracked,
            node,
        ))
    }

    /// `shape.elements()` elements from `start` on, untracked; free. For gradients that an op returns side by side.
    pub fn span(&self, start: usize, shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        let range = start * 4..(start + shape.elements()) * 4;
        Ok(Self::build(self.0.bytes.slice(range)?, shape, false, None))
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tracked = if self.0.tracked { ", tracked" } else { "" };
        write!(f, "Tensor #{} {}{tracked}", self.0.id.0, self.0.shape)
    }
}
