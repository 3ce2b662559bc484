//! Golden models with their golden adapters, written as a run writes them.

// Each test binary uses a part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use amv_train::error::Error;
use amv_train::export::{self, BaseModel, Export, Output, Tokenizer};
use amv_train::format::adapter::Base;
use amv_train::format::{Checkpoint, safetensors};
use amv_train::lora::{Adapter, LoraConfig, Pair, Targets};
use amv_train::models::{self, Decoder};
use amv_train::nn::Loader;
use amv_train::quant::Weight;
use serde_json::json;

use super::golden::Golden;

/// A model with an adapter, ready to be written.
pub struct Tuned {
    pub base: Base,
    pub adapter: Arc<Adapter>,
    pub model: BaseModel,
}

impl Tuned {
    /// The model `file` with these pairs, which are in its own row order.
    pub fn new(file: &Path, pairs: BTreeMap<String, Pair>) -> Tuned {
        let config = LoraConfig {
            rank: 3,
            alpha: 5.0,
            dropout: 0.1,
            targets: Targets::Names(pairs.keys().cloned().collect()),
            ..LoraConfig::default()
        };
        Tuned::of(file, config, pairs)
    }

    /// The same with an adapter made like `config`.
    pub fn of(file: &Path, config: LoraConfig, pairs: BTreeMap<String, Pair>) -> Tuned {
        let checkpoint = Checkpoint::open(file).unwrap();
        let adapter = Adapter::continuing(config, pairs);
        let loader = Loader::new(checkpoint.source(), Some(adapter.clone()));
        Decoder::load(checkpoint.config(), &loader).unwrap();
        Tuned {
            base: models::adapter_base(&checkpoint).unwrap(),
            adapter,
            model: BaseModel {
                name: "people/model-1b".into(),
                format: checkpoint.format_name().into(),
                sha256: checkpoint.sha256().unwrap(),
            },
        }
    }

    pub fn write(&self, output: &Output) -> Result<Vec<export::Written>, Error> {
        export::write(
            output,
            &Export {
                adapter: &self.adapter,
                base: &self.base,
                model: &self.model,
                tokenizer: &Tokenizer::default(),
                training: json!({"lr": 0.1}),
                result: json!({"steps": 1, "epochs": 1.0, "final_loss": 2.5}),
            },
        )
    }
}

/// The golden adapter of a case in the row order of `base`.
pub fn pairs(golden: &Golden, base: &Base) -> BTreeMap<String, Pair> {
    golden.pairs((base.heads, base.kv_heads), base.pairs)
}

pub fn base(file: &Path) -> Base {
    models::adapter_base(&Checkpoint::open(file).unwrap()).unwrap()
}

pub fn tensors_of(path: &Path) -> Vec<(String, Weight)> {
    let file = safetensors::Safetensors::open(path).unwrap();
    file.tensor_names()
        .map(|name| (name.to_owned(), file.weight(name).unwrap()))
        .collect()
}

pub fn replace(path: &Path, tensors: &[(String, Weight)]) {
    safetensors::write(path, &BTreeMap::new(), tensors).unwrap();
}

pub fn weight(values: Vec<f32>, shape: [usize; 2]) -> Weight {
    let bytes = amv_train::backend::Bytes::from_f32(values);
    Weight::new(amv_train::quant::Format::F32, shape.into(), bytes).unwrap()
}
