//! Layers as a model loads them, and the seam at which is decided how they run: each by itself or several as a unit, from
//! pages that stay or that are given back, here or elsewhere.

use std::sync::Arc;

use crate::backend::Bytes;
use crate::tensor::Segment;

/// One layer or several that run as a unit.
#[derive(Clone)]
pub struct Span {
    pub segment: Arc<dyn Segment>,
    /// Whether an adapter has a part in it.
    pub learns: bool,
    /// What it reads of the model's files.
    pub pages: Vec<Bytes>,
}

/// Decides how the layers of a model run.
pub trait Placer: Send + Sync {
    /// Neighbouring layers of a model, in the order they run in, as the units to run.
    fn place(&self, layers: Vec<Span>) -> Vec<Span>;

    /// Hears of every layer as soon as it is loaded, before the next one is.
    fn loaded(&self, _layer: &Span) {}
}

/// Every layer by itself; its pages stay while the system has room for them.
pub struct AsLoaded;

impl Placer for AsLoaded {
    fn place(&self, layers: Vec<Span>) -> Vec<Span> {
        layers
    }
}
