//! A path into the weights of a checkpoint that hands out ready layers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::cpu::product::Precision;
use crate::bail;
use crate::error::Result;
use crate::lora::Adapter;
use crate::nn::{Embedding, Linear, NormSpec, RmsNorm};
use crate::quant::Weight;
use crate::shape::Shape;
use crate::tensor::Tensor;

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
    /// Names handed out so far, shared by all clones.
    used: Arc<Mutex<BTreeSet<String>>>,
}

impl Loader {
    pub fn new(source: Arc<dyn Source>, adapter: Option<Arc<Adapter>>) -> Loader {
        Loader {
            source,
            adapter,
            path: String::new(),
            precision: Precision::F32,
            used: Arc::default(),
        }
    }

    /// The same place, whose weights multiply with factors rounded to `precision`.
    pub fn with_precision(self, precision: Precision) -> Loader {
        Loader { precision, ..self }
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
        self.used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(full);
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

    /// Whether the adapter has a part in this place or below it, once that has been loaded.
    pub fn learns(&self) -> bool {
        let adapter = self.adapter.as_ref();
        adapter.is_some_and(|adapter| adapter.learns(&self.path))
    }

    pub fn rms_norm(&self, name: &str, width: usize, spec: NormSpec) -> Result<RmsNorm> {
        let weight = self.at(name).tensor("weight", [width])?;
        RmsNorm::new(weight, spec, self.layout())
    }

    /// Refuses a checkpoint with tensors the model did not ask for: it is of another architecture than it says.
    pub fn finish(&self) -> Result<()> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let names = self.source.names();
        let left: Vec<&String> = names.iter().filter(|name| !used.contains(*name)).collect();
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
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.insert(self.join(name));
    }

    fn join(&self, name: &str) -> String {
        match self.path.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.path),
        }
    }
}
