//! Layers on this machine: how many run as a unit, and whether what they read of the model's files stays in memory.

use std::sync::Arc;

use crate::autograd::replay;
use crate::backend::Bytes;
use crate::error::Result;
use crate::nn::{Placer, Span};
use crate::tensor::{Ctx, Grads, Segment, Tensor};

/// What becomes of the pages of a model's files after they were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residence {
    /// They stay until the system needs the memory.
    Mapped,
    /// They are given back after every use, and those of the next unit are read meanwhile.
    Streamed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Layers in a unit, at least 1. Of a unit that is replayed only the input is kept, and all of it is replayed at once.
    pub together: usize,
    pub residence: Residence,
}

impl Default for Placement {
    fn default() -> Self {
        Placement {
            together: 1,
            residence: Residence::Mapped,
        }
    }
}

impl Placer for Placement {
    fn place(&self, layers: Vec<Span>) -> Vec<Span> {
        let units: Vec<Span> = layers.chunks(self.together).map(unit).collect();
        match self.residence {
            Residence::Mapped => units,
            Residence::Streamed => (0..units.len()).map(|at| streamed(&units, at)).collect(),
        }
    }

    /// Loading reads norms, and DoRA whole matrices.
    fn loaded(&self, layer: &Span) {
        if self.residence == Residence::Streamed {
            layer.pages.iter().for_each(Bytes::let_go);
        }
    }
}

fn unit(layers: &[Span]) -> Span {
    let segments = layers.iter().map(|layer| layer.segment.clone());
    match layers {
        [layer] => layer.clone(),
        layers => Span {
            segment: Arc::new(Chain(segments.collect())),
            learns: layers.iter().any(|layer| layer.learns),
            pages: layers
                .iter()
                .flat_map(|layer| layer.pages.clone())
                .collect(),
        },
    }
}

fn streamed(units: &[Span], at: usize) -> Span {
    let pages = |at: Option<usize>| {
        let unit = at.and_then(|at| units.get(at));
        unit.map_or(Vec::new(), |unit| unit.pages.clone())
    };
    Span {
        segment: Arc::new(Streamed {
            segment: units[at].segment.clone(),
            pages: pages(Some(at)),
            before: pages(at.checked_sub(1)),
            after: pages(Some(at + 1)),
        }),
        ..units[at].clone()
    }
}

/// Layers that run one after another and are replayed together.
struct Chain(Vec<Arc<dyn Segment>>);

impl Segment for Chain {
    fn forward(&self, x: &[Tensor], ctx: &Ctx) -> Result<Vec<Tensor>> {
        let mut x = x.to_vec();
        for layer in &self.0 {
            x = layer.forward(&x, ctx)?;
        }
        Ok(x)
    }

    fn backward(
        &self,
        x: &[Tensor],
        dy: &[Option<Tensor>],
        ctx: &Ctx,
        grads: &mut Grads,
    ) -> Result<Vec<Option<Tensor>>> {
        replay(self, x, dy, ctx, grads)
    }
}

/// A unit whose pages are given back after every use, while those of its neighbour are read.
struct Streamed {
    segment: Arc<dyn Segment>,
    pages: Vec<Bytes>,
    /// Those of the units before and after this one.
    before: Vec<Bytes>,
    after: Vec<Bytes>,
}

impl Streamed {
    fn with_next<T>(&self, next: &[Bytes], work: impl FnOnce() -> T) -> T {
        next.iter().for_each(Bytes::fetch_ahead);
        let done = work();
        self.pages.iter().for_each(Bytes::let_go);
        done
    }
}

impl Segment for Streamed {
    fn forward(&self, x: &[Tensor], ctx: &Ctx) -> Result<Vec<Tensor>> {
        self.with_next(&self.after, || self.segment.forward(x, ctx))
    }

    fn backward(
        &self,
        x: &[Tensor],
        dy: &[Option<Tensor>],
        ctx: &Ctx,
        grads: &mut Grads,
    ) -> Result<Vec<Option<Tensor>>> {
        let work = || self.segment.backward(x, dy, ctx, grads);
        self.with_next(&self.before, work)
    }
}
