//! What must be the same for a run to go on: data, base, and every setting that decides what is learned.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::data::Sample;
use crate::error;
use crate::error::{Error, Result};
use crate::format::digest;
use crate::train::TrainOptions;
use crate::train::checkpoint::Identity;

/// Options that may change from one part of a run to the next: they decide where things are, how long the run is, what is
/// shown and kept, but not what a step learns. Of `model`, `data`, `evalData` and `initAdapter` the content counts, not
/// the place.
const FREE: [&str; 25] = [
    "model",
    "data",
    "evalData",
    "initAdapter",
    "output",
    "epochs",
    "maxSteps",
    "evalEvery",
    "sampleEvery",
    "backend",
    "precision",
    "checkpointing",
    "vocabSlice",
    "chunkLayers",
    "streamLayers",
    "threads",
    "guardBand",
    "fit",
    "log",
    "tensorboard",
    "saveEvery",
    "keep",
    "overwrite",
    "resume",
    "strict",
];

/// Names that are no options.
const BASE: &str = "base model";
const DATA: &str = "data";
const EVALUATION_DATA: &str = "evaluation data";
const PARAMETERS: &str = "trainable parameters";
const CLOCK: &str = "seconds from 1970 to what the chat template takes for the time";

/// The identity of a run with the options `used`. `base`: the SHA-256 of the model's weights.
pub fn identity(
    used: &TrainOptions,
    (samples, eval): (&[Sample], &[Sample]),
    base: &str,
    parameters: usize,
) -> Result<Identity> {
    let mut identity = Identity::new();
    if let Value::Object(options) = used.json()? {
        for (name, value) in options {
            if !FREE.contains(&&*name) {
                identity.insert(flag(&name), value.to_string());
            }
        }
    }
    let others = [
        (BASE, format!("SHA-256 {base}")),
        (DATA, content(samples)),
        (EVALUATION_DATA, content(eval)),
        (PARAMETERS, parameters.to_string()),
    ];
    identity.extend(others.map(|(name, text)| (name.to_owned(), text)));
    Ok(identity)
}

/// Adds the time that was written into the data: on another day the template would write other data.
pub fn freeze(identity: &mut Identity, now: SystemTime) {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    identity.insert(CLOCK.to_owned(), since.as_secs().to_string());
}

/// The time that [`freeze`] added, if any.
pub fn frozen(identity: &Identity) -> Option<SystemTime> {
    let seconds = identity.get(CLOCK)?.parse().ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// `lrScheduler` is `--lr-scheduler`.
fn flag(property: &str) -> String {
    let mut name = String::from("--");
    for letter in property.chars() {
        if letter.is_ascii_uppercase() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn content(samples: &[Sample]) -> String {
    let mut hash = Sha256::new();
    for sample in samples {
        hash.update((sample.ids.len() as u64).to_le_bytes());
        for tokens in [&sample.ids, &sample.targets] {
            tokens.iter().for_each(|id| hash.update(id.to_le_bytes()));
        }
    }
    format!(
        "{} samples, SHA-256 {}",
        samples.len(),
        digest::hexadecimal(&hash.finalize())
    )
}

/// Refuses to go on with a run that is not the one that was saved, naming every difference.
pub fn compare(saved: &Identity, now: &Identity) -> Result<()> {
    let none = "none".to_owned();
    let names: BTreeSet<&String> = saved.keys().chain(now.keys()).collect();
    let differences: Vec<String> = names
        .into_iter()
        .map(|name| {
            let [saved, now] = [saved, now].map(|identity| identity.get(name).unwrap_or(&none));
            (name, saved, now)
        })
        .filter(|(_, saved, now)| saved != now)
        .map(|(name, saved, now)| format!("{name}: {saved} -> {now}"))
        .collect();
    match differences.is_empty() {
        true => Ok(()),
        false => Err(different(&differences.join("; "))),
    }
}

fn different(differences: &str) -> Error {
    error!(
        Usage,
        "this is not the run that was saved: {differences} (saved -> now)"
    )
    .hint("resume with the model, data and settings it was started with, or start anew with --overwrite and no --resume")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ids: &[u32]) -> Sample {
        Sample {
            ids: ids.to_vec(),
            targets: ids.to_vec(),
            place: "here".to_owned(),
        }
    }

    fn of(options: &TrainOptions, ids: &[u32]) -> Identity {
        identity(options, (&[sample(ids)], &[]), "ab12", 8).unwrap()
    }

    #[test]
    fn differences_are_named_with_old_and_new_value() {
        let options = TrainOptions::default();
        let saved = of(&options, &[1, 2]);
        compare(&saved, &of(&options, &[1, 2])).unwrap();
        let other = TrainOptions {
            lr: 0.5,
            grad_accum: 2,
            ..options.clone()
        };
        let message = compare(&saved, &of(&other, &[1, 2])).unwrap_err().message;
        assert!(message.contains("--lr: 0.0001 -> 0.5"), "{message}");
        assert!(message.contains("--grad-accum: 1 -> 2"), "{message}");
        let message = compare(&saved, &of(&options, &[1, 3])).unwrap_err().message;
        assert!(message.contains("data: 1 samples, SHA-256 "), "{message}");
    }

    #[test]
    fn the_place_of_things_may_change() {
        let options = TrainOptions::default();
        let moved = TrainOptions {
            model: "elsewhere.gguf".to_owned(),
            output: "x/".to_owned(),
            threads: 7,
            epochs: 9,
            ..options.clone()
        };
        assert_eq!(of(&options, &[1]), of(&moved, &[1]));
    }

    #[test]
    fn every_free_option_exists() {
        let Value::Object(options) = serde_json::json!(TrainOptions::default()) else {
            panic!("options are an object");
        };
        let mut unknown = FREE.iter().filter(|name| !options.contains_key(**name));
        assert_eq!(unknown.next(), None);
    }
}
