//! The adapter a run starts from, and whether it still is to start.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};

use crate::error::Result;
use crate::format::adapter::{self, SavedAdapter};
use crate::lora::{Adapter, Layers, LoraConfig, Patterns, Targets, ranges};
use crate::train::TrainOptions;
use crate::{bail, error};

/// An error when the run was asked to stop before its first step; there is nothing to save then.
pub fn go_on(stop: &AtomicBool) -> Result<()> {
    match stop.load(Ordering::Relaxed) {
        true => Err(error!(Aborted, "stopped before the first step")),
        false => Ok(()),
    }
}

/// A fresh adapter, or the one to continue, whose settings hold. Refuses what does not fit `base`; loads nothing of it.
pub fn new_adapter(options: &TrainOptions, base: &adapter::Base) -> Result<Arc<Adapter>> {
    let Some(path) = &options.init_adapter else {
        let config = config(options, base, &LoraConfig::default())?;
        base.check(&config)?;
        return Ok(Adapter::new(config));
    };
    let saved = adapter::read(Path::new(path), base)?;
    if let Some((name, value)) = contradiction(options, base, &saved)? {
        return Err(error!(
            Usage,
            "--{name} contradicts the adapter {path}, which has {value}"
        )
        .hint(format!(
            "leave --{name} out: a continued adapter keeps its own"
        )));
    }
    let config = LoraConfig {
        dropout: options.lora_dropout,
        seed: options.seed,
        ..saved.config
    };
    Ok(Adapter::continuing(config, saved.pairs))
}

/// The settings that the options give; `default` where they give none.
fn config(
    options: &TrainOptions,
    base: &adapter::Base,
    default: &LoraConfig,
) -> Result<LoraConfig> {
    let default = default.clone();
    Ok(LoraConfig {
        rank: options.rank.unwrap_or(default.rank),
        alpha: options.alpha.unwrap_or(default.alpha),
        dropout: options.lora_dropout,
        targets: match &options.target {
            Some(list) => Targets::parse(&list.text())?,
            None => default.targets,
        },
        layers: match &options.layers {
            Some(list) => Some(Layers::parse(&list.text())?.of_model(base.layer_count())?),
            None => default.layers,
        },
        rank_pattern: match &options.rank_pattern {
            Some(values) => pattern("rank-pattern", values, (rank, "a whole number"))?,
            None => default.rank_pattern,
        },
        alpha_pattern: match &options.alpha_pattern {
            Some(values) => pattern("alpha-pattern", values, (alpha, "a number"))?,
            None => default.alpha_pattern,
        },
        rslora: options.rslora.unwrap_or(default.rslora),
        dora: options.dora.unwrap_or(default.dora),
        seed: options.seed,
    })
}

fn pattern<T>(
    name: &str,
    values: &Map<String, Value>,
    (read, needed): (fn(&Value) -> Option<T>, &str),
) -> Result<Patterns<T>> {
    let mut rules = Vec::new();
    for (key, value) in values {
        match read(value) {
            Some(value) => rules.push((key.clone(), value)),
            None => bail!(
                Usage,
                "{name}: {key} is {value}; it must be {needed} above 0"
            ),
        }
    }
    Patterns::new(rules)
}

fn rank(value: &Value) -> Option<usize> {
    let rank = usize::try_from(value.as_u64()?).ok()?;
    (rank > 0).then_some(rank)
}

fn alpha(value: &Value) -> Option<f32> {
    let alpha = value.as_f64()? as f32;
    (alpha.is_finite() && alpha > 0.0).then_some(alpha)
}

/// The first option that says something else than the adapter to continue, and what that has.
fn contradiction(
    options: &TrainOptions,
    base: &adapter::Base,
    saved: &SavedAdapter,
) -> Result<Option<(&'static str, String)>> {
    let held = &saved.config;
    let wanted = config(options, base, held)?;
    let paths = || saved.pairs.keys();
    let same_layers = |wanted: &LoraConfig| {
        let sites = base.sites();
        let is_same = |path: &str| wanted.targets_path(path) == saved.pairs.contains_key(path);
        sites.iter().all(|site| is_same(&site.path))
    };
    // Layers without names mean the names that the adapter has.
    let named = LoraConfig {
        targets: match options.target {
            Some(_) => wanted.targets.clone(),
            None => Targets::Names(saved.leaves().into_iter().map(str::to_owned).collect()),
        },
        ..wanted.clone()
    };
    let numbers = paths().filter_map(|path| crate::lora::layer_of(path));
    let flags = |is: bool| if is { "it on" } else { "it off" }.to_owned();
    let checks = [
        ("rank", wanted.rank != held.rank, held.rank.to_string()),
        ("alpha", wanted.alpha != held.alpha, held.alpha.to_string()),
        ("dora", wanted.dora != held.dora, flags(held.dora)),
        ("rslora", wanted.rslora != held.rslora, flags(held.rslora)),
        (
            "rank-pattern",
            paths().any(|path| wanted.rank_of(path) != held.rank_of(path)),
            "other ranks".to_owned(),
        ),
        (
            "alpha-pattern",
            paths().any(|path| wanted.alpha_of(path) != held.alpha_of(path)),
            "other alphas".to_owned(),
        ),
        (
            "layers",
            options.layers.is_some() && options.target.is_none() && !same_layers(&named),
            ranges(&numbers.collect()),
        ),
        (
            "target",
            options.target.is_some() && !same_layers(&wanted),
            saved.leaves().join(","),
        ),
    ];
    let first = checks.into_iter().find(|(_, contradicts, _)| *contradicts);
    Ok(first.map(|(name, _, value)| (name, value)))
}
