//! The `target_modules` that make PEFT put its layers exactly where ours are.

use std::collections::{BTreeMap, BTreeSet};

use crate::lora::Pair;

/// Leaf names such as `q_proj` when they mean exactly the layers that have a pair, else the whole paths.
///
/// PEFT takes a module whose path is one of these or ends with a dot and one of these; it loads only what it has a place
/// for, without a word about the rest. `layers`: paths of all linear layers of the model.
pub fn names(pairs: &BTreeMap<String, Pair>, layers: &BTreeSet<String>) -> Vec<String> {
    let leaves: BTreeSet<&str> = pairs.keys().map(|path| leaf(path)).collect();
    let others = layers.iter().filter(|path| !pairs.contains_key(*path));
    match others
        .map(|path| leaf(path))
        .any(|leaf| leaves.contains(leaf))
    {
        true => pairs.keys().cloned().collect(),
        false => leaves.into_iter().map(str::to_owned).collect(),
    }
}

fn leaf(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lora::Matrix;

    fn names_of(targeted: &[&str]) -> Vec<String> {
        let layers = [
            "l.0.q_proj",
            "l.0.v_proj",
            "l.1.q_proj",
            "l.1.v_proj",
            "lm_head",
        ];
        let empty = || Matrix {
            rows: 0,
            columns: 0,
            values: Vec::new(),
        };
        let pair = |path: &&str| {
            (
                path.to_string(),
                Pair {
                    a: empty(),
                    b: empty(),
                },
            )
        };
        let layers = layers.iter().map(|path| path.to_string()).collect();
        names(&targeted.iter().map(pair).collect(), &layers)
    }

    #[test]
    fn leaf_names_stand_for_every_layer_of_that_name() {
        assert_eq!(names_of(&["l.0.q_proj", "l.1.q_proj"]), ["q_proj"]);
        assert_eq!(
            names_of(&["l.0.v_proj", "l.1.v_proj", "lm_head"]),
            ["lm_head", "v_proj"]
        );
    }

    #[test]
    fn some_layers_of_a_name_are_listed_by_path() {
        assert_eq!(
            names_of(&["l.0.v_proj", "l.1.q_proj", "l.1.v_proj"]),
            ["l.0.v_proj", "l.1.q_proj", "l.1.v_proj"]
        );
    }
}
