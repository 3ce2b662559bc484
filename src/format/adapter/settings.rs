//! The settings beside an adapter's tensors: PEFT's `adapter_config.json`, or our sidecar, which shares its names.

use std::path::Path;

use serde_json::{Map, Value};

use super::refused;
use crate::error::{Error, Result};

/// What decides how much B·A counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    pub rank: usize,
    /// For the rule alpha / rank; that of rsLoRA, alpha / √rank, has been folded into it.
    pub alpha: f32,
}

/// Initial values whose training also changed the base model, so that A and B alone are not the adapter.
const CHANGES_BASE: [&str; 5] = ["pissa", "olora", "corda", "loftq", "lora_ga"];

impl Settings {
    /// Reads the JSON file at `path`.
    ///
    /// Errors: not JSON, not LoRA, no rank or alpha, and every setting that a plain pair A, B cannot express.
    pub fn read(path: &Path) -> Result<Settings> {
        let failed = |message: String| refused(path, message);
        let text = std::fs::read(path).map_err(|cause| Error::file("read", path, &cause))?;
        let map: Map<String, Value> = serde_json::from_slice(&text)
            .map_err(|cause| failed(format!("this is not a JSON object: {cause}")))?;
        if let Some((message, hint)) = refusal(&map) {
            return Err(failed(message).hint(hint));
        }
        let rank = map
            .get("r")
            .and_then(Value::as_u64)
            .and_then(|rank| usize::try_from(rank).ok())
            .filter(|rank| *rank > 0)
            .ok_or_else(|| failed(wrong(&map, "r", "a whole number from 1 on")))?;
        let alpha = map
            .get("lora_alpha")
            .and_then(Value::as_f64)
            .map(|alpha| alpha as f32)
            .filter(|alpha| alpha.is_finite())
            .ok_or_else(|| failed(wrong(&map, "lora_alpha", "a number")))?;
        if let Some(message) = uneven(&map, rank, alpha) {
            return Err(failed(message));
        }
        // alpha / √rank = (alpha · √rank) / rank
        let folded = match is_true(&map, "use_rslora") {
            true => alpha * (rank as f32).sqrt(),
            false => alpha,
        };
        Ok(Settings {
            rank,
            alpha: folded,
        })
    }
}

/// How a rank or alpha of one layer differs from `rank` and `alpha`.
fn uneven(map: &Map<String, Value>, rank: usize, alpha: f32) -> Option<String> {
    for (key, one) in [
        ("rank_pattern", rank as f64),
        ("alpha_pattern", alpha.into()),
    ] {
        let pattern = map.get(key).and_then(Value::as_object);
        let mut layers = pattern.into_iter().flatten();
        if let Some((layer, value)) = layers.find(|(_, value)| value.as_f64() != Some(one)) {
            return Some(format!(
                "{key} gives {layer} {value} and other layers {one}; only one for all layers can be trained"
            ));
        }
    }
    None
}

/// Why settings like these cannot be continued, and what to do.
fn refusal(map: &Map<String, Value>) -> Option<(String, &'static str)> {
    if map.contains_key("lora_parameters") || map.contains_key("fine_tune_type") {
        return Some(("these are settings of MLX".into(), super::peft::MLX_HINT));
    }
    let kind = map.get("peft_type").and_then(Value::as_str);
    if kind != Some("LORA") {
        let kind = kind.unwrap_or("(none)");
        return Some((
            format!("peft_type is {kind}; only LORA can be continued"),
            "start a new adapter without --init-adapter",
        ));
    }
    if is_true(map, "use_dora") {
        return Some((
            "use_dora: DoRA cannot be continued in this version".into(),
            DORA_HINT,
        ));
    }
    if let Some(modules) = map.get("modules_to_save").and_then(Value::as_array)
        && !modules.is_empty()
    {
        let names: Vec<_> = modules.iter().map(Value::to_string).collect();
        return Some((
            format!(
                "modules_to_save holds {}: whole weights, not a LoRA",
                names.join(", ")
            ),
            FULL_WEIGHT_HINT,
        ));
    }
    let start = map.get("init_lora_weights").and_then(Value::as_str);
    if let Some(start) = start
        && CHANGES_BASE
            .iter()
            .any(|name| start.to_lowercase().starts_with(name))
    {
        return Some((
            format!("init_lora_weights is {start}, which changed the base model as well"),
            "save it with PEFT's path_initial_model_for_weight_conversion, which turns it into a plain LoRA",
        ));
    }
    for key in ["lora_bias", "use_qalora"] {
        if is_true(map, key) {
            return Some((
                format!("{key} cannot be continued in this version"),
                NEW_HINT,
            ));
        }
    }
    let bias = map.get("bias").and_then(Value::as_str).unwrap_or("none");
    if bias != "none" {
        return Some((
            format!("bias is {bias}: trained biases cannot be continued in this version"),
            NEW_HINT,
        ));
    }
    for key in [
        "layer_replication",
        "trainable_token_indices",
        "alora_invocation_tokens",
    ] {
        if map.get(key).is_some_and(|value| !value.is_null()) {
            return Some((
                format!("{key} cannot be continued in this version"),
                NEW_HINT,
            ));
        }
    }
    None
}

pub(super) const DORA_HINT: &str = "merge the DoRA adapter into its base model with PEFT's merge_and_unload and train a new adapter on the result";
pub(super) const FULL_WEIGHT_HINT: &str = "train the layer as a LoRA instead (target it, which an untied lm_head allows) and leave modules_to_save out; \
     unchanged copies stay out of the file with save_embedding_layers=False";
const NEW_HINT: &str = "merge the adapter into its base model with PEFT's merge_and_unload and train a new adapter on the result";

fn is_true(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn wrong(map: &Map<String, Value>, key: &str, expected: &str) -> String {
    match map.get(key) {
        Some(value) => format!("{key} is {value}, not {expected}"),
        None => format!("there is no {key}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn read(text: &str) -> Result<Settings> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adapter_config.json");
        std::fs::write(&path, text).unwrap();
        Settings::read(&path)
    }

    #[test]
    fn four_fields_are_enough() {
        let settings =
            read(r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}"#);
        let expected = Settings {
            rank: 4,
            alpha: 8.0,
        };
        assert_eq!(settings.unwrap(), expected);
    }

    #[test]
    fn the_scale_of_rslora_is_folded_into_alpha() {
        let settings =
            read(r#"{"peft_type": "LORA", "r": 16, "lora_alpha": 8.0, "use_rslora": true}"#);
        // 8 / √16 = 2 = 32 / 16
        assert_eq!(settings.unwrap().alpha, 32.0);
    }

    #[test]
    fn what_a_plain_pair_cannot_express_is_refused_by_name() {
        for (part, word) in [
            (r#""use_dora": true"#, "use_dora"),
            (r#""modules_to_save": ["lm_head"]"#, "modules_to_save"),
            (
                r#""init_lora_weights": "pissa_niter_4""#,
                "init_lora_weights",
            ),
            (r#""bias": "lora_only""#, "bias"),
            (r#""lora_bias": true"#, "lora_bias"),
            (r#""layer_replication": [[0, 2]]"#, "layer_replication"),
            (r#""rank_pattern": {"k_proj": 8}"#, "rank_pattern"),
            (r#""alpha_pattern": {"k_proj": 16}"#, "alpha_pattern"),
            (r#""lora_parameters": {"rank": 8}"#, "MLX"),
            (r#""peft_type": "IA3""#, "IA3"),
            (r#""r": 4.0"#, "r is 4.0"),
            (r#""lora_alpha": "8""#, "lora_alpha"),
        ] {
            // A key that is there twice counts as its last value.
            let text = format!(r#"{{"peft_type": "LORA", "r": 4, "lora_alpha": 8, {part}}}"#);
            let error = read(&text).unwrap_err();
            assert_eq!(error.code, Code::BadAdapter, "{text}");
            assert!(error.message.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn patterns_that_change_nothing_are_fine() {
        read(
            r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "rank_pattern": {"k_proj": 4},
                "alpha_pattern": {}, "bias": "none", "modules_to_save": null, "init_lora_weights": true}"#,
        )
        .unwrap();
    }
}
