//! What an adapter's file must know of the model it belongs to.

use std::sync::Arc;

use crate::error;
use crate::error::Result;
use crate::format::adapter::RowOrder;
use crate::lora::Targets;
use crate::nn::Source;
use crate::ops::Pairs;

/// The layer of the logits, when it has a weight of its own.
pub(super) const HEAD: &str = "lm_head";
const EMBEDDING: &str = "model.embed_tokens";

/// A base model as its adapters see it. `models::adapter_base` makes it from a checkpoint.
#[derive(Clone)]
pub struct Base {
    /// As in `general.architecture` of GGUF files.
    pub architecture: &'static str,
    pub heads: usize,
    pub kv_heads: usize,
    /// The order of query and key rows in the base's file.
    pub pairs: Pairs,
    /// The head is the embedding table.
    pub tied: bool,
    /// The base's weights, for the shapes of its layers.
    pub source: Arc<dyn Source>,
}

impl Base {
    /// The order in which training has the rows of B: that of the base's own weights.
    pub fn row_order(&self) -> RowOrder {
        match self.pairs {
            Pairs::Halves => RowOrder::HuggingFace,
            Pairs::Interleaved => RowOrder::Gguf,
        }
    }

    /// Refuses targets that no adapter file could carry: the head of a tied model, which llama.cpp rejects, and the
    /// embedding table. Needs nothing loaded.
    pub fn check_targets(&self, targets: &Targets) -> Result<()> {
        if self.tied && targets.match_path(HEAD) {
            return Err(error!(
                Usage,
                "target {targets}: the head of this model is its embedding table, which cannot have an adapter"
            )
            .hint("target layers of the blocks, such as all-linear"));
        }
        if targets.match_path(EMBEDDING) {
            return Err(error!(
                Usage,
                "target {targets}: the embedding table cannot have an adapter in this version"
            )
            .hint("target linear layers, such as all-linear"));
        }
        Ok(())
    }

    /// The paths of all linear layers.
    pub fn layers(&self) -> Vec<String> {
        let names = self.source.names().into_iter();
        let paths = names.filter_map(|name| Some(name.strip_suffix(".weight")?.to_owned()));
        paths.filter(|path| self.layer(path).is_some()).collect()
    }

    /// Outputs and inputs of the linear layer at `path`; none when the base has no such layer.
    pub(super) fn layer(&self, path: &str) -> Option<(usize, usize)> {
        if path == EMBEDDING || (path == HEAD && self.tied) {
            return None;
        }
        let weight = self.source.weight(&format!("{path}.weight")).ok()?;
        match weight.shape()[..] {
            [outputs, inputs] => Some((outputs, inputs)),
            _ => None,
        }
    }
}
