//! What an adapter's file must know of the model it belongs to.

use std::sync::Arc;

use crate::error;
use crate::error::Result;
use crate::format::adapter::RowOrder;
use crate::lora::{LayerKind, LoraConfig, Site, layer_of};
use crate::nn::Source;
use crate::ops::Pairs;

/// The layer of the logits, when it has a weight of its own.
pub(super) const HEAD: &str = "lm_head";
pub(super) const EMBEDDING: &str = "model.embed_tokens";

/// Why neither of the two can have an adapter when they are one.
pub(super) const TIED: &str = "llama.cpp refuses or crashes on an adapter of a table that is both";

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

    /// Refuses settings that no adapter of this model could have, before anything is loaded: everything that
    /// [`LoraConfig::check`] finds, and the head or the embedding table of a model in which they are one.
    pub fn check(&self, config: &LoraConfig) -> Result<()> {
        let targets = &config.targets;
        let one = [HEAD, EMBEDDING]
            .into_iter()
            .find(|path| targets.match_path(path));
        if let (true, Some(path)) = (self.tied, one) {
            return Err(error!(
                Usage,
                "target {targets}: {path} cannot have an adapter, since this model's head is its embedding table: {TIED}"
            )
            .hint("target layers of the blocks, such as all-linear"));
        }
        config.check(&self.sites())
    }

    /// Every layer that can have an adapter, in the order of the model, embedding and head first.
    pub fn sites(&self) -> Vec<Site> {
        let names = self.source.names().into_iter();
        let paths = names.filter_map(|name| Some(name.strip_suffix(".weight")?.to_owned()));
        let site = |path: String| {
            let (outputs, inputs) = self.layer(&path)?;
            Some(Site {
                path,
                outputs,
                inputs,
            })
        };
        let mut sites: Vec<Site> = paths.filter_map(site).collect();
        sites.sort_by(|one, other| {
            let place = |site: &Site| layer_of(&site.path);
            place(one)
                .cmp(&place(other))
                .then(one.path.cmp(&other.path))
        });
        sites
    }

    /// How many decoder layers there are.
    pub fn layer_count(&self) -> usize {
        let names = self.source.names();
        let last = names.iter().filter_map(|name| layer_of(name)).max();
        last.map_or(0, |last| last + 1)
    }

    /// Rows of B and columns of A of the layer at `path`; none when the base has no such layer, or none that can have an
    /// adapter.
    pub(super) fn layer(&self, path: &str) -> Option<(usize, usize)> {
        if self.tied && (path == HEAD || path == EMBEDDING) {
            return None;
        }
        let weight = self.source.weight(&format!("{path}.weight")).ok()?;
        match weight.shape()[..] {
            [rows, columns] => Some(LayerKind::of(path).sides(rows, columns)),
            _ => None,
        }
    }
}
