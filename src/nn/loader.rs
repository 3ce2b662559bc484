//! A path into the weights of a checkpoint that hands out ready layers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::Bytes;
use crate::backend::cpu::product::Precision;
use crate::bail;
use crate::error::Result;
use crate::lora::Adapter;
use crate::nn::{AsLoaded, Embedding, Linear, NormSpec, Placer, RmsNorm, Span};
use crate::quant::Weight;
use crate::shape::Shape;
use crate::tensor::{Segment, Tensor};

/// Conventions that differ between files of the same model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    HuggingFace,
    /// llama's query and key rows are interleaved for rope; Gemma's norms already hold 1 + w.
    Gguf,
}

/// Frozen tensors by the names of the Hugging Face checkpoint, e.g. `model.layers.0.self_attn.q_proj.weight`.
pub trait Source: Send + Sync {
    /// The tensor `name`, or `BAD_MODEL` when there is none.
    fn weight(&self, name: &str) -> Result<Weight>;
    fn has(&self, name: &str) -> bool;
    fn names(&self) -> Vec<String>;
    fn layout(&self) -> Layout;
}

/// A place in the checkpoint, and the adapter whose layers learn. Cheap to clone.
#[derive(Clone)]
pub struct Loader {
    source: Arc<dyn Source>,
    adapter: Option<Arc<Adapter>>,
    path: String,
    precision: Precision,
    placer: Arc<dyn Placer>,
    /// Names handed out so far and where they lie, shared by all clones.
    used: Arc<Mutex<Used>>,
}

type Used = BTreeMap<String, Option<Bytes>>;

impl Loader {
    pub fn new(source: Arc<dyn Source>, adapter: Option<Arc<Adapter>>) -> Loader {
        Loader {
            source,
            adapter,
            path: String::new(),
            precision: Precision::F32,
            placer: Arc::new(AsLoaded),
            used: Arc::default(),
        }
    }

    /// The same place, whose weights multiply with factors rounded to `precision`.
    pub fn with_precision(self, precision: Precision) -> Loader {
        Loader { precision, ..self }
    }

    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// The same place, whose layers run as `placer` decides.
    pub fn with_placer(self, placer: Arc<dyn Placer>) -> Loader {
        Loader { placer, ..self }
    }

    /// The place `name` below this one.
    pub fn at(&self, name: impl std::fmt::Display) -> Loader {
        Loader {
            path: self.join(&name.to_string()),
            ..self.clone()
        }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn layout(&self) -> Layout {
        self.source.layout()
    }

    pub fn has(&self, name: &str) -> bool {
        self.source.has(&self.join(name))
    }

    /// The tensor `name` in f32, of exactly this shape: norms, biases, frequencies.
    pub fn tensor(&self, name: &str, shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        Tensor::new(self.weight(name, shape.clone())?.to_f32()?, shape)
    }

    /// The frozen tensor `name`, of exactly this shape.
    pub fn weight(&self, name: &str, shape: impl Into<Shape>) -> Result<Weight> {
        let (full, shape) = (self.join(name), shape.into());
        let weight = self.source.weight(&full)?;
        if *weight.shape() != shape {
            bail!(
                BadModel,
                "{full} is {} but the model's configuration says {shape}",
                weight.shape()
            );
        }
        let mapped = weight.bytes().is_mapped().then(|| weight.bytes().clone());
        self.used().insert(full, mapped);
        Ok(weight.with_precision(self.precision))
    }

    /// The embedding `name`, rows of `width`, whose vocabulary only the checkpoint knows; with its adapter when targeted.
    pub fn embedding(&self, name: &str, width: usize) -> Result<Embedding> {
        let place = self.at(name);
        let rows = place.source.weight(&place.join("weight"))?.shape().rows();
        let table = place.weight("weight", [rows, width])?;
        let adapter = place.adapter(&table)?;
        Ok(Embedding::new(place.path, table, adapter))
    }

    /// The adapter, when it has a part for this place and its `weight`.
    fn adapter(&self, weight: &Weight) -> Result<Option<Arc<Adapter>>> {
        Ok(match &self.adapter {
            Some(adapter) if adapter.attach(&self.path, weight)? => Some(adapter.clone()),
            _ => None,
        })
    }

    /// The linear layer `name` [outputs, inputs], with its bias when the checkpoint has one, and its adapter when targeted.
    pub fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<Linear> {
        let place = self.at(name);
        let weight = place.weight("weight", [outputs, inputs])?;
        let bias = match place.has("bias") {
            true => Some(place.tensor("bias", [outputs])?),
            false => None,
        };
        let adapter = place.adapter(&weight)?;
        Ok(Linear::new(place.path, weight, bias, adapter))
    }

    /// What has been loaded in this place and below it, which `segment` runs.
    pub fn span(&self, segment: Arc<dyn Segment>) -> Span {
        let below = format!("{}.", self.path);
        let used = self.used();
        let names = used.range(below.clone()..);
        let names = names.take_while(|(name, _)| name.starts_with(&below));
        let adapter = self.adapter.as_ref();
        let span = Span {
            segment,
            learns: adapter.is_some_and(|adapter| adapter.learns(&self.path)),
            pages: names.filter_map(|(_, bytes)| bytes.clone()).collect(),
        };
        self.placer.loaded(&span);
        span
    }

    /// Neighbouring layers as the units to run.
    pub fn place(&self, layers: Vec<Span>) -> Vec<Span> {
        self.placer.place(layers)
    }

    pub fn rms_norm(&self, name: &str, width: usize, spec: NormSpec) -> Result<RmsNorm> {
        let weight = self.at(name).tensor("weight", [width])?;
        RmsNorm::new(weight, spec, self.layout())
    }

    /// Refuses a checkpoint with tensors the model did not ask for: it is of another architecture than it says.
    pub fn finish(&self) -> Result<()> {
        let used = self.used();
        let names = self.source.names();
        let left: Vec<&String> = names
            .iter()
            .filter(|name| !used.contains_key(*name))
            .collect();
        if let Some(first) = left.first() {
            bail!(
                UnsupportedModel,
                "the checkpoint has {} tensors this architecture does not use, {first} first; training would ignore them",
                left.len()
            );
        }
        match &self.adapter {
            Some(adapter) => adapter.finish(),
            None => Ok(()),
        }
    }

    /// Marks `name` as seen: a tensor that repeats another, such as the stored copy of a tied head.
    pub fn skip(&self, name: &str) {
        self.used().insert(self.join(name), None);
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, name: &str) -> String {
        match self.path.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.path),
        }
    }
}
