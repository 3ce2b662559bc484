//! Values for layers whose path matches a regular expression: PEFT's `rank_pattern` and `alpha_pattern`.

use fancy_regex::Regex;

use crate::error;
use crate::error::Result;

/// Keys in their order, each a regular expression, with the value for the layers it matches.
///
/// A key means a whole path or the end of one after a dot: PEFT's `(.*\.)?(key)$`. The first key that matches decides.
#[derive(Debug, Clone)]
pub struct Patterns<T>(Vec<(String, Regex, T)>);

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Patterns(Vec::new())
    }
}

impl<T: PartialEq> PartialEq for Patterns<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T> Patterns<T> {
    /// Errors: `USAGE` for a key that is no regular expression.
    pub fn new(values: impl IntoIterator<Item = (String, T)>) -> Result<Patterns<T>> {
        let compile = |(key, value): (String, T)| {
            let regex = expression(&format!(r"^(?:.*\.)?(?:{key})$"), &key)?;
            Ok((key, regex, value))
        };
        Ok(Patterns(
            values.into_iter().map(compile).collect::<Result<_>>()?,
        ))
    }

    /// The value for the layer at `path`.
    pub fn get(&self, path: &str) -> Option<&T> {
        let found = self.0.iter().find(|(_, regex, _)| matches(regex, path));
        found.map(|(_, _, value)| value)
    }

    /// Keys that match none of `paths`, alone.
    pub fn unmatched<'a>(&'a self, paths: &[&str]) -> Vec<&'a str> {
        let rules = self.0.iter();
        let idle = rules.filter(|(_, regex, _)| !paths.iter().any(|path| matches(regex, path)));
        idle.map(|(key, ..)| key.as_str()).collect()
    }

    /// Without the keys that match none of `paths`.
    pub fn of_paths(mut self, paths: &[&str]) -> Patterns<T> {
        self.0
            .retain(|(_, regex, _)| paths.iter().any(|path| matches(regex, path)));
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(key, _, value)| (key.as_str(), value))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Copy + PartialEq> Patterns<T> {
    /// The most common value of `layers` (path, value), or `none` without any, and patterns that give each of the others
    /// its own: by the last name where all layers of that name agree, else by whole path.
    pub fn of_layers<'a>(
        layers: impl Iterator<Item = (&'a str, T)>,
        none: T,
    ) -> Result<(T, Patterns<T>)> {
        let layers: Vec<(&str, T)> = layers.collect();
        let common = most_common(layers.iter().map(|(_, value)| *value)).unwrap_or(none);
        let leaf = |path: &'a str| path.rsplit('.').next().unwrap_or(path);
        let mut rules: Vec<(String, T)> = Vec::new();
        for &(path, value) in layers.iter().filter(|(_, value)| *value != common) {
            let mut same_name = layers.iter().filter(|(other, _)| leaf(other) == leaf(path));
            let key = match same_name.all(|(_, other)| *other == value) {
                true => leaf(path),
                false => path,
            };
            if rules.iter().all(|(known, _)| known != key) {
                rules.push((key.to_owned(), value));
            }
        }
        Ok((common, Patterns::new(rules)?))
    }
}

/// The value that stands there most often, the first of them when several do.
pub fn most_common<T: Copy + PartialEq>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: Vec<(T, usize)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    let best = counts.iter().rev().max_by_key(|(_, count)| *count);
    best.map(|(value, _)| *value)
}

/// A regular expression, or an error that says what is wrong with `text`, which the user gave.
pub(super) fn expression(whole: &str, text: &str) -> Result<Regex> {
    Regex::new(whole)
        .map_err(|cause| error!(Usage, "{text:?} is not a regular expression: {cause}"))
}

/// Whether `path` matches; an expression that takes too long to decide does not.
pub(super) fn matches(regex: &Regex, path: &str) -> bool {
    regex.is_match(path).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_match_as_in_peft() {
        let keys = [
            "q_proj",
            r"^model\.layers\.1\.mlp\.up_proj",
            r"layers\.[02]\..*k_proj",
            "o_proj|v_proj",
        ];
        let patterns = Patterns::new(keys.iter().map(|key| key.to_string()).zip(1..)).unwrap();
        // What re.match(rf"(.*\.)?({key})$", path) says for each key.
        for (path, value) in [
            ("model.layers.0.self_attn.q_proj", Some(1)),
            ("model.layers.0.self_attn.xq_proj", None),
            ("model.layers.1.mlp.up_proj", Some(2)),
            ("x.model.layers.1.mlp.up_proj", None),
            ("model.layers.2.self_attn.k_proj", Some(3)),
            ("model.layers.1.self_attn.k_proj", None),
            ("model.layers.1.self_attn.v_proj", Some(4)),
            ("q_proj", Some(1)),
            ("model.layers.0.self_attn.q_proj.x", None),
        ] {
            assert_eq!(patterns.get(path).copied(), value, "{path}");
        }
        assert_eq!(patterns.unmatched(&["a.q_proj", "a.v_proj"]), &keys[1..3]);
        let kept = patterns.of_paths(&["a.q_proj", "a.v_proj"]);
        let kept: Vec<&str> = kept.iter().map(|(key, _)| key).collect();
        assert_eq!(kept, [keys[0], keys[3]]);
    }

    #[test]
    fn patterns_of_layers_give_each_its_value_back() {
        let layers = [
            ("l.0.q", 4),
            ("l.1.q", 4),
            ("l.0.k", 8),
            ("l.1.k", 8),
            ("l.0.v", 4),
            ("l.1.v", 2),
            ("l.2.v", 4),
        ];
        let (common, patterns) = Patterns::of_layers(layers.iter().copied(), 0).unwrap();
        assert_eq!(common, 4);
        let keys: Vec<_> = patterns.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["k", "l.1.v"]);
        for (path, value) in layers {
            assert_eq!(*patterns.get(path).unwrap_or(&common), value, "{path}");
        }
        assert_eq!(most_common([1, 2, 2, 1, 3].into_iter()), Some(1));
    }

    #[test]
    fn the_first_key_decides_and_a_broken_one_is_named() {
        let two = [("q_proj".to_owned(), 1), (".*proj".to_owned(), 2)];
        let patterns = Patterns::new(two).unwrap();
        assert_eq!(patterns.get("a.q_proj"), Some(&1));
        assert_eq!(patterns.get("a.v_proj"), Some(&2));
        let error = Patterns::new([("q(".to_owned(), 1)]).unwrap_err();
        assert!(
            error
                .message
                .starts_with("\"q(\" is not a regular expression"),
            "{error}"
        );
    }
}
