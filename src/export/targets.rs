//! The `target_modules` and `layers_to_transform` that make PEFT put its layers exactly where ours are.

use std::collections::{BTreeMap, BTreeSet};

use crate::lora::{Pair, layer_of};

/// Which modules PEFT adapts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetModules {
    /// PEFT takes a module whose path is one of these or ends with a dot and one of these.
    pub names: Vec<String>,
    /// Of those, only the ones in these layers.
    pub layers: Option<Vec<usize>>,
}

impl TargetModules {
    /// Leaf names such as `q_proj`, with the numbers of the layers where only some have a pair, when they mean exactly the
    /// layers that have one; else the whole paths.
    ///
    /// PEFT loads only what it has a place for, without a word about the rest. `all`: the paths of all layers of the model.
    pub fn of(pairs: &BTreeMap<String, Pair>, all: &BTreeSet<String>) -> TargetModules {
        let leaves: BTreeSet<&str> = pairs.keys().map(|path| leaf(path)).collect();
        let names = leaves.iter().map(|leaf| (*leaf).to_owned()).collect();
        let alike = all.iter().filter(|path| leaves.contains(leaf(path)));
        let mut missing = alike.clone().filter(|path| !pairs.contains_key(*path));
        if missing.next().is_none() {
            return TargetModules {
                names,
                layers: None,
            };
        }
        let numbers: BTreeSet<Option<usize>> = pairs.keys().map(|path| layer_of(path)).collect();
        let mut of_layers = alike.filter(|path| numbers.contains(&layer_of(path)));
        let whole = of_layers.all(|path| pairs.contains_key(path));
        match numbers.into_iter().collect::<Option<Vec<usize>>>() {
            Some(layers) if whole => TargetModules {
                names,
                layers: Some(layers),
            },
            _ => TargetModules {
                names: pairs.keys().cloned().collect(),
                layers: None,
            },
        }
    }
}

fn leaf(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lora::Matrix;

    fn of(targeted: &[&str]) -> (Vec<String>, Option<Vec<usize>>) {
        let all = [
            "m.l.0.a.q_proj",
            "m.l.0.a.v_proj",
            "m.l.1.a.q_proj",
            "m.l.1.a.v_proj",
            "lm_head",
        ];
        let empty = || Matrix {
            rows: 0,
            columns: 0,
            values: Vec::new(),
        };
        let pair = |path: &&str| (path.to_string(), Pair::new(empty(), empty()));
        let all = all.iter().map(|path| path.to_string()).collect();
        let targets = TargetModules::of(&targeted.iter().map(pair).collect(), &all);
        (targets.names, targets.layers)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn leaf_names_stand_for_every_layer_of_that_name() {
        let all = of(&["m.l.0.a.q_proj", "m.l.1.a.q_proj"]);
        assert_eq!(all, (names(&["q_proj"]), None));
        let with_head = of(&["m.l.0.a.v_proj", "m.l.1.a.v_proj", "lm_head"]);
        assert_eq!(with_head, (names(&["lm_head", "v_proj"]), None));
    }

    #[test]
    fn the_same_names_in_some_layers_have_their_numbers() {
        let second = of(&["m.l.1.a.q_proj", "m.l.1.a.v_proj"]);
        assert_eq!(second, (names(&["q_proj", "v_proj"]), Some(vec![1])));
    }

    #[test]
    fn other_choices_are_listed_by_path() {
        for paths in [
            ["m.l.0.a.v_proj", "m.l.1.a.q_proj", "m.l.1.a.v_proj"],
            ["lm_head", "m.l.1.a.q_proj", "m.l.1.a.v_proj"],
        ] {
            assert_eq!(of(&paths), (names(&paths), None));
        }
    }
}
