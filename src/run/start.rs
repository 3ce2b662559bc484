//! The adapter a run starts from.

use std::path::Path;
use std::sync::Arc;

use crate::error;
use crate::error::Result;
use crate::format::adapter;
use crate::lora::{Adapter, LoraConfig, Targets};
use crate::train::TrainOptions;

/// The rank and strength of an adapter when nothing says otherwise.
const RANK: usize = 8;
const ALPHA: f32 = 16.0;

/// A fresh adapter, or the one to continue, whose rank, alpha and targets hold.
pub fn new_adapter(options: &TrainOptions, base: &adapter::Base) -> Result<Arc<Adapter>> {
    let targets = options
        .target
        .as_ref()
        .map(|list| Targets::parse(&list.text()));
    let fresh = LoraConfig {
        rank: options.rank.unwrap_or(RANK),
        alpha: options.alpha.unwrap_or(ALPHA),
        dropout: options.lora_dropout,
        targets: targets.clone().unwrap_or(Targets::AllLinear),
        seed: options.seed,
    };
    let Some(path) = &options.init_adapter else {
        base.check_targets(&fresh.targets)?;
        return Ok(Adapter::new(fresh));
    };
    let saved = adapter::read(Path::new(path), base)?;
    let held = [
        (
            "rank",
            options.rank.is_some_and(|rank| rank != saved.rank),
            saved.rank.to_string(),
        ),
        (
            "alpha",
            options.alpha.is_some_and(|alpha| alpha != saved.alpha),
            saved.alpha.to_string(),
        ),
        (
            "target",
            targets.is_some_and(|targets| !saved.is_for(&targets, base)),
            saved.leaves().join(","),
        ),
    ];
    if let Some((name, _, value)) = held.into_iter().find(|(_, contradicts, _)| *contradicts) {
        return Err(error!(
            Usage,
            "--{name} contradicts the adapter {path}, which has {value}"
        )
        .hint(format!(
            "leave --{name} out: a continued adapter keeps its own"
        )));
    }
    let config = LoraConfig {
        rank: saved.rank,
        alpha: saved.alpha,
        targets: saved.targets(),
        ..fresh
    };
    Ok(Adapter::continuing(config, saved.pairs))
}
