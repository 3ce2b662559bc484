//! The settings beside an adapter's tensors: PEFT's `adapter_config.json`, or our sidecar, which shares its names.

use std::path::Path;

use serde_json::{Map, Value};

use super::refused;
use crate::error::{Error, Result};
use crate::lora::{LoraConfig, Patterns};

/// Initial values whose training also changed the base model, so that A and B alone are not the adapter.
const CHANGES_BASE: [&str; 5] = ["pissa", "olora", "corda", "loftq", "lora_ga"];

/// Reads the JSON file at `path`: rank, alpha, their patterns, rsLoRA and DoRA.
///
/// Errors: not JSON, not LoRA, no rank or alpha, and every setting that a pair A, B cannot express.
pub fn read(path: &Path) -> Result<LoraConfig> {
    let failed = |message: String| refused(path, message);
    let text = std::fs::read(path).map_err(|cause| Error::file("read", path, &cause))?;
    let map: Map<String, Value> = serde_json::from_slice(&text)
        .map_err(|cause| failed(format!("this is not a JSON object: {cause}")))?;
    if let Some((message, hint)) = refusal(&map) {
        return Err(failed(message).hint(hint));
    }
    let number = |value: Option<&Value>, name: &str| {
        rank(value).ok_or_else(|| failed(wrong(value, name, "a whole number from 1 on")))
    };
    let strength = |value: Option<&Value>, name: &str| {
        alpha(value).ok_or_else(|| failed(wrong(value, name, "a number")))
    };
    let (mut ranks, mut alphas) = (Vec::new(), Vec::new());
    for (key, value) in pattern(&map, "rank_pattern") {
        let value = number(Some(value), &format!("rank_pattern of {key}"))?;
        ranks.push((key.clone(), value));
    }
    for (key, value) in pattern(&map, "alpha_pattern") {
        let value = strength(Some(value), &format!("alpha_pattern of {key}"))?;
        alphas.push((key.clone(), value));
    }
    Ok(LoraConfig {
        rank: number(map.get("r"), "r")?,
        alpha: strength(map.get("lora_alpha"), "lora_alpha")?,
        rank_pattern: Patterns::new(ranks).map_err(|error| failed(error.message))?,
        alpha_pattern: Patterns::new(alphas).map_err(|error| failed(error.message))?,
        rslora: is_true(&map, "use_rslora"),
        dora: is_true(&map, "use_dora"),
        ..LoraConfig::default()
    })
}

fn rank(value: Option<&Value>) -> Option<usize> {
    let rank = usize::try_from(value?.as_u64()?).ok()?;
    (rank > 0).then_some(rank)
}

fn alpha(value: Option<&Value>) -> Option<f32> {
    let alpha = value?.as_f64()? as f32;
    alpha.is_finite().then_some(alpha)
}

fn pattern<'a>(
    map: &'a Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    map.get(key)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
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

pub(super) const FULL_WEIGHT_HINT: &str = "train the layer as a LoRA instead (target it, which an untied lm_head allows) and leave modules_to_save out; \
     unchanged copies stay out of the file with save_embedding_layers=False";
const NEW_HINT: &str = "merge the adapter into its base model with PEFT's merge_and_unload and train a new adapter on the result";

fn is_true(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn wrong(value: Option<&Value>, name: &str, expected: &str) -> String {
    match value {
        Some(value) => format!("{name} is {value}, not {expected}"),
        None => format!("there is no {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn read(text: &str) -> Result<LoraConfig> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adapter_config.json");
        std::fs::write(&path, text).unwrap();
        super::read(&path)
    }

    #[test]
    fn four_fields_are_enough() {
        let config =
            read(r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}"#)
                .unwrap();
        assert_eq!((config.rank, config.alpha), (4, 8.0));
        assert!(!config.rslora && !config.dora);
    }

    #[test]
    fn the_variants_of_peft_are_read() {
        let config = read(
            r#"{"peft_type": "LORA", "r": 16, "lora_alpha": 8.0, "use_rslora": true, "use_dora": true,
                "rank_pattern": {"k_proj": 4, ".*proj": 2}, "alpha_pattern": {"v_proj": 2.5}}"#,
        )
        .unwrap();
        assert!(config.rslora && config.dora);
        assert_eq!(
            (config.rank_of("a.k_proj"), config.rank_of("a.v_proj")),
            (4, 2)
        );
        assert_eq!(config.scale_of("a.k_proj"), 4.0);
        assert_eq!(config.alpha_of("a.v_proj"), 2.5);
    }

    #[test]
    fn what_a_plain_pair_cannot_express_is_refused_by_name() {
        for (part, word) in [
            (r#""modules_to_save": ["lm_head"]"#, "modules_to_save"),
            (
                r#""init_lora_weights": "pissa_niter_4""#,
                "init_lora_weights",
            ),
            (r#""bias": "lora_only""#, "bias"),
            (r#""lora_bias": true"#, "lora_bias"),
            (r#""layer_replication": [[0, 2]]"#, "layer_replication"),
            (r#""rank_pattern": {"k_proj": 0}"#, "rank_pattern of k_proj"),
            (
                r#""alpha_pattern": {"k_proj": "a"}"#,
                "alpha_pattern of k_proj",
            ),
            (r#""rank_pattern": {"k(": 8}"#, "regular expression"),
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
