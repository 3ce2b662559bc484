//! Whether settings fit a model, before anything is trained.

use std::collections::BTreeSet;

use crate::bail;
use crate::error::{Code, Error, Result};
use crate::lora::layers::ranges;
use crate::lora::{LoraConfig, nearest};

/// A layer that could have an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    pub path: String,
    /// Rows of B.
    pub outputs: usize,
    /// Columns of A.
    pub inputs: usize,
}

impl LoraConfig {
    /// Refuses settings that do not fit a model with these layers: targets and pattern keys that match nothing, with the
    /// near names, and ranks above a dimension. All problems are in the one `USAGE` error.
    pub fn check(&self, sites: &[Site]) -> Result<()> {
        let all: Vec<&str> = sites.iter().map(|site| site.path.as_str()).collect();
        let within = |path: &&str| self.is_in_layers(path);
        let left: Vec<&str> = all.iter().copied().filter(within).collect();
        let targeted: Vec<&Site> = sites
            .iter()
            .filter(|site| self.targets_path(&site.path))
            .collect();
        let mut problems = Vec::new();
        let unknown = self.targets.unmatched(&all);
        if !unknown.is_empty() {
            let names = unknown.join(", ");
            let near = did_you_mean(&unknown, &leaves(&all));
            problems.push(format!(
                "target {names} matches no layer of this model{near}"
            ));
        }
        let outside = self.targets.unmatched(&left);
        let outside: Vec<_> = outside
            .iter()
            .filter(|name| !unknown.contains(name))
            .collect();
        if let (Some(name), Some(layers)) = (outside.first(), &self.layers) {
            problems.push(format!(
                "target {name} has nothing in the layers {}",
                ranges(layers)
            ));
        }
        let paths: Vec<&str> = targeted.iter().map(|site| site.path.as_str()).collect();
        for (option, keys) in [
            ("rank-pattern", self.rank_pattern.unmatched(&paths)),
            ("alpha-pattern", self.alpha_pattern.unmatched(&paths)),
        ] {
            if !keys.is_empty() && !paths.is_empty() {
                let near = did_you_mean(&keys, &leaves(&paths));
                problems.push(format!(
                    "{option} {} matches no layer that gets an adapter{near}",
                    keys.join(", ")
                ));
            }
        }
        problems.extend(self.check_ranks(&targeted).err().map(|error| error.message));
        if problems.is_empty() {
            if targeted.is_empty() {
                bail!(Usage, "no layer of this model is a target");
            }
            return Ok(());
        }
        let error = Error::new(Code::Usage, problems.join("; "));
        let names = leaves(&all).into_iter().collect::<Vec<_>>().join(", ");
        Err(match unknown.is_empty() {
            true => error,
            false => error.hint(format!("layers that can be targeted: {names}")),
        })
    }

    fn check_ranks(&self, sites: &[&Site]) -> Result<()> {
        sites.iter().try_for_each(|site| self.check_rank(site))
    }

    /// Refuses a rank of 0 or above the smaller side of the layer.
    pub(super) fn check_rank(&self, site: &Site) -> Result<()> {
        let Site {
            path,
            outputs,
            inputs,
        } = site;
        let (rank, most) = (self.rank_of(path), *inputs.min(outputs));
        if rank == 0 || rank > most {
            bail!(
                Usage,
                "rank {rank} does not fit {path}, which is [{outputs}, {inputs}]; use a rank from 1 to {most}"
            );
        }
        Ok(())
    }
}

/// The last names of paths, each once.
fn leaves<'a>(paths: &[&'a str]) -> BTreeSet<&'a str> {
    let leaf = |path: &&'a str| path.rsplit('.').next();
    paths.iter().filter_map(leaf).collect()
}

fn did_you_mean(words: &[impl AsRef<str>], names: &BTreeSet<&str>) -> String {
    let presets = ["all-linear", "attention", "mlp"];
    let near = |word: &str| nearest(word, names.iter().copied().chain(presets));
    let found: Vec<&str> = words
        .iter()
        .filter_map(|word| near(word.as_ref()))
        .collect();
    match found.is_empty() {
        true => String::new(),
        false => format!(", did you mean {}?", found.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lora::{Patterns, Targets};

    fn sites() -> Vec<Site> {
        let site = |path: &str, outputs, inputs| Site {
            path: path.into(),
            outputs,
            inputs,
        };
        vec![
            site("model.layers.0.self_attn.q_proj", 32, 16),
            site("model.layers.1.self_attn.q_proj", 32, 16),
            site("model.layers.1.mlp.gate_proj", 64, 16),
            site("lm_head", 100, 16),
        ]
    }

    fn message(change: impl Fn(&mut LoraConfig)) -> String {
        let mut config = LoraConfig::default();
        change(&mut config);
        let error = config.check(&sites()).unwrap_err();
        assert_eq!(error.code, Code::Usage);
        format!("{} | {}", error.message, error.hint.unwrap_or_default())
    }

    fn targets(text: &str) -> Targets {
        Targets::parse(text).unwrap()
    }

    #[test]
    fn fitting_settings_pass() {
        let mut config = LoraConfig::default();
        config.check(&sites()).unwrap();
        config.targets = targets("attention,lm_head");
        config.rank_pattern = Patterns::new([("lm_head".to_owned(), 16)]).unwrap();
        config.check(&sites()).unwrap();
    }

    #[test]
    fn no_target_at_all_is_refused() {
        let message = message(|config| config.targets = Targets::Names(Vec::new()));
        assert_eq!(message, "no layer of this model is a target | ");
    }

    #[test]
    fn names_that_match_nothing_come_with_the_near_ones() {
        assert_eq!(
            message(|config| config.targets = targets("qproj,lm_head,xyzxyz")),
            "target qproj, xyzxyz matches no layer of this model, did you mean q_proj? | \
             layers that can be targeted: gate_proj, lm_head, q_proj"
        );
        assert_eq!(
            message(|config| config.targets = targets("atention")),
            "target atention matches no layer of this model, did you mean attention? | \
             layers that can be targeted: gate_proj, lm_head, q_proj"
        );
        assert_eq!(
            message(|config| config.alpha_pattern =
                Patterns::new([("lm_head".into(), 1.0), ("gate_prj".into(), 1.0)]).unwrap()),
            "alpha-pattern lm_head, gate_prj matches no layer that gets an adapter, did you mean gate_proj? | "
        );
    }

    #[test]
    fn targets_outside_the_layers_are_refused() {
        let message = message(|config| {
            config.targets = targets("q_proj,lm_head");
            config.layers = Some([1].into());
        });
        assert_eq!(message, "target lm_head has nothing in the layers 1 | ");
    }

    #[test]
    fn a_rank_above_a_dimension_is_refused_and_problems_come_together() {
        let message = message(|config| {
            config.rank_pattern =
                Patterns::new([("gate_proj".into(), 17), ("x".into(), 1)]).unwrap();
        });
        assert_eq!(
            message,
            "rank-pattern x matches no layer that gets an adapter; rank 17 does not fit model.layers.1.mlp.gate_proj, \
             which is [64, 16]; use a rank from 1 to 16 | "
        );
    }
}
