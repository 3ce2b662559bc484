//! What an adapter of one layer consists of, and what PEFT calls it.

/// The layers an adapter can belong to; they differ in which way round their weight is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKind {
    /// W [out, in]: A is [rank, in], B [out, rank], and W grows by s·B·A.
    Linear,
    /// A table [vocab, width]: A is [rank, vocab], B [width, rank], and the table grows by s·(B·A)ᵀ.
    Embedding,
}

/// The module of the embedding table.
const EMBEDDING: &str = "embed_tokens";

impl LayerKind {
    /// The kind of the layer at `path`, e.g. `model.layers.0.self_attn.q_proj`.
    pub fn of(path: &str) -> LayerKind {
        match path.rsplit('.').next() {
            Some(EMBEDDING) => LayerKind::Embedding,
            _ => LayerKind::Linear,
        }
    }

    /// (out, in) of a weight of shape [rows, columns]: B has `out` rows, A `in` columns.
    pub fn sides(self, rows: usize, columns: usize) -> (usize, usize) {
        match self {
            LayerKind::Linear => (rows, columns),
            LayerKind::Embedding => (columns, rows),
        }
    }
}

/// One trainable tensor of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    A,
    B,
    /// DoRA's length of each output.
    Magnitude,
}

/// What stands before the path of every module in PEFT's files.
pub const PEFT_PREFIX: &str = "base_model.model.";

/// Name endings in PEFT's files.
const ENDINGS: [(&str, Part); 5] = [
    (".lora_A.weight", Part::A),
    (".lora_B.weight", Part::B),
    (".lora_embedding_A", Part::A),
    (".lora_embedding_B", Part::B),
    (".lora_magnitude_vector", Part::Magnitude),
];

impl Part {
    /// The name in PEFT's files of this part of the layer at `path`.
    pub fn peft_name(self, path: &str) -> String {
        let ending = match (self, LayerKind::of(path)) {
            (Part::A, LayerKind::Linear) => ENDINGS[0].0,
            (Part::B, LayerKind::Linear) => ENDINGS[1].0,
            (Part::A, LayerKind::Embedding) => ENDINGS[2].0,
            (Part::B, LayerKind::Embedding) => ENDINGS[3].0,
            (Part::Magnitude, _) => ENDINGS[4].0,
        };
        format!("{PEFT_PREFIX}{path}{ending}")
    }

    /// The layer and the part that a name of PEFT's means; none for other names.
    pub fn of_peft_name(name: &str) -> Option<(&str, Part)> {
        let name = name.strip_prefix(PEFT_PREFIX)?;
        let found = |&(ending, part)| Some((name.strip_suffix(ending)?, part));
        let (path, part) = ENDINGS.iter().find_map(found)?;
        (part.peft_name(path)[PEFT_PREFIX.len()..] == *name).then_some((path, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_peft_and_back() {
        for (path, part, name) in [
            (
                "m.q_proj",
                Part::A,
                "base_model.model.m.q_proj.lora_A.weight",
            ),
            (
                "m.q_proj",
                Part::Magnitude,
                "base_model.model.m.q_proj.lora_magnitude_vector",
            ),
            (
                "model.embed_tokens",
                Part::B,
                "base_model.model.model.embed_tokens.lora_embedding_B",
            ),
        ] {
            assert_eq!(part.peft_name(path), name);
            assert_eq!(Part::of_peft_name(name), Some((path, part)));
        }
        for name in [
            "m.q_proj.lora_A.weight",
            "base_model.model.m.q_proj.lora_embedding_A",
            "base_model.model.model.embed_tokens.lora_A.weight",
            "base_model.model.m.q_proj.weight",
        ] {
            assert_eq!(Part::of_peft_name(name), None, "{name}");
        }
    }
}
