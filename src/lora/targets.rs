//! Which layers get an adapter: PEFT's `target_modules`, and words for the usual choices.

use std::fmt;

use fancy_regex::Regex;

use crate::error::Result;
use crate::lora::patterns::{expression, matches};

/// A preset, names, or one regular expression.
#[derive(Debug, Clone)]
pub enum Targets {
    /// Every linear layer of the decoder blocks: all but the head.
    AllLinear,
    /// Layers whose path is one of these or ends with a dot and one of these; `all-linear`, `attention` and `mlp` stand
    /// for what they say.
    Names(Vec<String>),
    /// Layers whose whole path matches.
    Pattern(Regex),
}

impl PartialEq for Targets {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

const ALL_LINEAR: &str = "all-linear";

/// Characters that no path has.
const OF_EXPRESSIONS: &[char] = &[
    '*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '^', '$', '\\',
];

impl Targets {
    /// Presets and names separated by commas, or a regular expression, told by its special characters.
    ///
    /// Errors: `USAGE` for an expression that cannot be read.
    pub fn parse(text: &str) -> Result<Targets> {
        let text = text.trim();
        if text == ALL_LINEAR {
            return Ok(Targets::AllLinear);
        }
        if text.contains(OF_EXPRESSIONS) {
            return Ok(Targets::Pattern(expression(
                &format!("^(?:{text})$"),
                text,
            )?));
        }
        let names = text.split(',').map(|name| name.trim().to_owned());
        Ok(Targets::Names(
            names.filter(|name| !name.is_empty()).collect(),
        ))
    }

    /// Whether the layer at `path`, e.g. `model.layers.0.self_attn.q_proj`, gets an adapter.
    pub fn match_path(&self, path: &str) -> bool {
        match self {
            Targets::AllLinear => means(ALL_LINEAR, path),
            Targets::Names(names) => names.iter().any(|name| means(name, path)),
            Targets::Pattern(regex) => matches(regex, path),
        }
    }

    /// The names that match none of `paths`, for the error that says so.
    pub fn unmatched(&self, paths: &[&str]) -> Vec<String> {
        let idle = |name: &&String| !paths.iter().any(|path| means(name, path));
        match self {
            Targets::Names(names) => names.iter().filter(idle).cloned().collect(),
            one if paths.iter().any(|path| one.match_path(path)) => Vec::new(),
            one => vec![one.to_string()],
        }
    }
}

/// Whether a name or preset means the layer at `path`.
fn means(name: &str, path: &str) -> bool {
    match name {
        ALL_LINEAR => path.contains(".layers."),
        "attention" => path.contains(".self_attn."),
        "mlp" => path.contains(".mlp."),
        name => match path.strip_suffix(name) {
            Some(before) => before.is_empty() || before.ends_with('.'),
            None => false,
        },
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Targets::AllLinear => f.write_str(ALL_LINEAR),
            Targets::Names(names) => f.write_str(&names.join(",")),
            Targets::Pattern(regex) => {
                let whole = regex.as_str();
                let text = whole
                    .strip_prefix("^(?:")
                    .and_then(|rest| rest.strip_suffix(")$"));
                f.write_str(text.unwrap_or(whole))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Targets {
        Targets::parse(text).unwrap()
    }

    #[test]
    fn names_match_whole_path_parts_only() {
        let targets = parse(" q_proj, v_proj ");
        assert!(targets.match_path("model.layers.0.self_attn.q_proj"));
        assert!(!targets.match_path("model.layers.0.self_attn.xq_proj"));
        assert!(!targets.match_path("model.layers.0.self_attn.k_proj"));
        assert!(parse("layers.1.self_attn.q_proj").match_path("model.layers.1.self_attn.q_proj"));
    }

    #[test]
    fn presets_leave_the_head_alone_unless_it_is_named_beside_them() {
        assert!(parse("all-linear").match_path("model.layers.0.mlp.up_proj"));
        assert!(!parse("all-linear").match_path("lm_head"));
        let targets = parse("attention,lm_head");
        assert!(targets.match_path("lm_head"));
        assert!(targets.match_path("model.layers.0.self_attn.o_proj"));
        assert!(!targets.match_path("model.layers.0.mlp.up_proj"));
    }

    #[test]
    fn an_expression_matches_whole_paths_as_in_peft() {
        let targets = parse(r".*layers\.[01]\.self_attn\.(q|v)_proj");
        assert!(targets.match_path("model.layers.1.self_attn.v_proj"));
        assert!(!targets.match_path("model.layers.2.self_attn.v_proj"));
        assert!(!targets.match_path("model.layers.1.self_attn.v_proj.x"));
        assert_eq!(
            targets.to_string(),
            r".*layers\.[01]\.self_attn\.(q|v)_proj"
        );
        assert!(Targets::parse("q_proj(").is_err());
    }

    #[test]
    fn names_without_a_layer_are_reported() {
        let paths = ["model.layers.0.self_attn.q_proj"];
        assert_eq!(parse("q_proj,query").unmatched(&paths), ["query"]);
        assert_eq!(parse("mlp").unmatched(&paths), ["mlp"]);
        assert_eq!(parse("x.*").unmatched(&paths), ["x.*"]);
    }
}
