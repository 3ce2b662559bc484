//! Which decoder layers get an adapter: PEFT's `layers_to_transform`.

use std::collections::BTreeSet;

use crate::bail;
use crate::error;
use crate::error::Result;

/// Layer numbers as a user writes them: `0-7,12`, or `last:8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layers {
    These(BTreeSet<usize>),
    Last(usize),
}

/// More layers than any model has; a range beyond it is a slip of the finger.
const MOST: usize = 100_000;

impl Layers {
    pub fn parse(text: &str) -> Result<Layers> {
        let wrong = || {
            error!(Usage, "layers {text:?} cannot be read")
                .hint("write numbers and ranges from 0 on such as 0-7,12, or last:8")
        };
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|n| *n < MOST);
        let text_of_last = text.trim().strip_prefix("last:");
        if let Some(count) = text_of_last {
            let count = number(count).filter(|count| *count > 0);
            return Ok(Layers::Last(count.ok_or_else(wrong)?));
        }
        let mut layers = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => layers.extend(first..=last),
                _ => return Err(wrong()),
            }
        }
        Ok(Layers::These(layers))
    }

    /// The numbers in a model of `count` layers; refused when one is beyond them.
    pub fn of_model(&self, count: usize) -> Result<BTreeSet<usize>> {
        match self {
            Layers::These(layers) => match layers.last() {
                Some(last) if *last >= count => bail!(
                    Usage,
                    "layers names layer {last}, but this model has the layers 0 to {}",
                    count.saturating_sub(1)
                ),
                _ => Ok(layers.clone()),
            },
            Layers::Last(last) if *last > count => {
                bail!(
                    Usage,
                    "layers last:{last}, but this model has {count} layers"
                )
            }
            Layers::Last(last) => Ok((count - last..count).collect()),
        }
    }
}

/// The number of the layer that `path` lies in, as PEFT finds it: the first part that is a number and has two before it
/// and one after.
pub fn layer_of(path: &str) -> Option<usize> {
    let parts: Vec<&str> = path.split('.').collect();
    let inner = parts.get(2..parts.len().saturating_sub(1))?;
    inner.iter().find_map(|part| part.parse().ok())
}

/// `0-7,12` for the numbers 0 to 7 and 12.
pub fn ranges(layers: &BTreeSet<usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &layer in layers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == layer => *last = layer,
            _ => runs.push((layer, layer)),
        }
    }
    let text = runs.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    text.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str, count: usize) -> Vec<usize> {
        let layers = Layers::parse(text).unwrap().of_model(count).unwrap();
        layers.into_iter().collect()
    }

    #[test]
    fn numbers_ranges_and_the_last_few_are_read() {
        assert_eq!(numbers("0-2, 5,1", 6), [0, 1, 2, 5]);
        assert_eq!(numbers("last:2", 6), [4, 5]);
        assert_eq!(
            ranges(&numbers("0-2,5,7-8", 9).into_iter().collect()),
            "0-2,5,7-8"
        );
        for text in [
            "",
            "a",
            "3-1",
            "last:0",
            "last:",
            "-1",
            "1-",
            "0-99999999999",
        ] {
            assert!(Layers::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn layers_beyond_the_model_are_refused_with_what_it_has() {
        let error = |text| {
            Layers::parse(text)
                .unwrap()
                .of_model(6)
                .unwrap_err()
                .message
        };
        assert_eq!(
            error("0-6"),
            "layers names layer 6, but this model has the layers 0 to 5"
        );
        assert_eq!(
            error("last:7"),
            "layers last:7, but this model has 6 layers"
        );
    }

    #[test]
    fn a_path_lies_in_the_layer_that_peft_finds() {
        assert_eq!(layer_of("model.layers.12.self_attn.q_proj"), Some(12));
        assert_eq!(layer_of("model.embed_tokens"), None);
        assert_eq!(layer_of("layers.3.q_proj"), None);
        assert_eq!(layer_of("model.layers.3"), None);
        assert_eq!(layer_of("lm_head"), None);
    }
}
