//! Which linear layers get an adapter.

use std::fmt;

/// Names as PEFT's `target_modules` has them, or a preset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// Every linear layer of the decoder blocks: all but the head.
    AllLinear,
    /// The projections of the attention.
    Attention,
    /// The projections of the feed-forward layers.
    Mlp,
    /// Layers whose path is one of these or ends with a dot and one of these.
    Names(Vec<String>),
}

impl Targets {
    /// `all-linear`, `attention`, `mlp`, or names separated by commas.
    pub fn parse(text: &str) -> Targets {
        match text.trim() {
            "all-linear" => Targets::AllLinear,
            "attention" => Targets::Attention,
            "mlp" => Targets::Mlp,
            list => Targets::Names(
                list.split(',')
                    .map(|name| name.trim().to_owned())
                    .filter(|name| !name.is_empty())
                    .collect(),
            ),
        }
    }

    /// Whether the layer at `path`, e.g. `model.layers.0.self_attn.q_proj`, gets an adapter.
    pub fn match_path(&self, path: &str) -> bool {
        match self {
            Targets::AllLinear => path.contains(".layers."),
            Targets::Attention => path.contains(".self_attn."),
            Targets::Mlp => path.contains(".mlp."),
            Targets::Names(names) => names.iter().any(|name| ends_with_name(path, name)),
        }
    }

    /// The names that match none of `paths`, for the error that says so.
    pub fn unmatched(&self, paths: &[String]) -> Vec<String> {
        match self {
            Targets::Names(names) => names
                .iter()
                .filter(|name| !paths.iter().any(|path| ends_with_name(path, name)))
                .cloned()
                .collect(),
            preset if paths.iter().any(|path| preset.match_path(path)) => Vec::new(),
            preset => vec![preset.to_string()],
        }
    }
}

fn ends_with_name(path: &str, name: &str) -> bool {
    match path.strip_suffix(name) {
        Some(before) => before.is_empty() || before.ends_with('.'),
        None => false,
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Targets::AllLinear => f.write_str("all-linear"),
            Targets::Attention => f.write_str("attention"),
            Targets::Mlp => f.write_str("mlp"),
            Targets::Names(names) => f.write_str(&names.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_whole_path_parts_only() {
        let targets = Targets::parse(" q_proj, v_proj ");
        assert!(targets.match_path("model.layers.0.self_attn.q_proj"));
        assert!(!targets.match_path("model.layers.0.self_attn.xq_proj"));
        assert!(!targets.match_path("model.layers.0.self_attn.k_proj"));
        assert!(
            Targets::parse("layers.1.self_attn.q_proj")
                .match_path("model.layers.1.self_attn.q_proj")
        );
    }

    #[test]
    fn all_linear_leaves_the_head_alone() {
        assert!(Targets::AllLinear.match_path("model.layers.0.mlp.up_proj"));
        assert!(!Targets::AllLinear.match_path("lm_head"));
    }

    #[test]
    fn names_without_a_layer_are_reported() {
        let paths = ["model.layers.0.self_attn.q_proj".to_owned()];
        assert_eq!(Targets::parse("q_proj,query").unmatched(&paths), ["query"]);
        assert_eq!(Targets::Mlp.unmatched(&paths), ["mlp"]);
    }
}
