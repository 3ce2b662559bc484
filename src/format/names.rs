//! Tensor names of Hugging Face checkpoints and of GGUF files, one table for both directions.
//!
//! Source: PyPI gguf 0.19, `tensor_mapping.py`; a test compares every row with it.

/// A set of architectures, named as in `general.architecture`.
#[derive(Clone, Copy)]
struct Set(u8);

const LLAMA: Set = Set(1);
const QWEN2: Set = Set(2);
const QWEN3: Set = Set(4);
const GEMMA2: Set = Set(8);
const GEMMA3: Set = Set(16);
const PHI3: Set = Set(32);

impl Set {
    const ALL: Set = Set(63);
    /// Separate projections, unlike phi3, which fuses q, k and v, and gate and up.
    const SEPARATE: Set = Set(31);
    const GEMMA: Set = Set(GEMMA2.0 | GEMMA3.0);
    const PLAIN_NORMS: Set = Set(LLAMA.0 | QWEN2.0 | QWEN3.0 | PHI3.0);
    const HEAD_NORMS: Set = Set(QWEN3.0 | GEMMA3.0);
}

const ARCHITECTURES: [(&str, Set); 6] = [
    ("llama", LLAMA),
    ("qwen2", QWEN2),
    ("qwen3", QWEN3),
    ("gemma2", GEMMA2),
    ("gemma3", GEMMA3),
    ("phi3", PHI3),
];

/// Outside the layers: Hugging Face module, GGUF name.
const OUTER: [(&str, &str); 3] = [
    ("model.embed_tokens", "token_embd"),
    ("model.norm", "output_norm"),
    ("lm_head", "output"),
];

const HF_LAYER: &str = "model.layers.";
const GGUF_LAYER: &str = "blk.";

/// In each layer, after its number: Hugging Face module, GGUF name, who has it.
///
/// The same words mean different norms: `ffn_norm` stands before the MLP, which Gemma calls `pre_feedforward_layernorm`
/// and the others `post_attention_layernorm`.
const LAYER: [(&str, &str, Set); 16] = [
    ("input_layernorm", "attn_norm", Set::ALL),
    ("self_attn.q_proj", "attn_q", Set::SEPARATE),
    ("self_attn.k_proj", "attn_k", Set::SEPARATE),
    ("self_attn.v_proj", "attn_v", Set::SEPARATE),
    ("self_attn.qkv_proj", "attn_qkv", PHI3),
    ("self_attn.o_proj", "attn_output", Set::ALL),
    ("self_attn.q_norm", "attn_q_norm", Set::HEAD_NORMS),
    ("self_attn.k_norm", "attn_k_norm", Set::HEAD_NORMS),
    (
        "post_attention_layernorm",
        "post_attention_norm",
        Set::GEMMA,
    ),
    ("post_attention_layernorm", "ffn_norm", Set::PLAIN_NORMS),
    ("pre_feedforward_layernorm", "ffn_norm", Set::GEMMA),
    ("mlp.gate_proj", "ffn_gate", Set::SEPARATE),
    ("mlp.up_proj", "ffn_up", Set::SEPARATE),
    ("mlp.gate_up_proj", "ffn_up", PHI3),
    ("mlp.down_proj", "ffn_down", Set::ALL),
    ("post_feedforward_layernorm", "post_ffw_norm", Set::GEMMA),
];

/// The GGUF name of a Hugging Face tensor (`model.layers.3.self_attn.q_proj.weight` is `blk.3.attn_q.weight`).
///
/// A path without `.weight` or `.bias` gives a name without them. None for an unknown architecture (as in
/// `general.architecture`) or name.
pub fn to_gguf(architecture: &str, name: &str) -> Option<String> {
    translate(architecture, name, Side::HuggingFace)
}

/// The Hugging Face name of a GGUF tensor, under the same conditions as [`to_gguf`].
pub fn to_hugging_face(architecture: &str, name: &str) -> Option<String> {
    translate(architecture, name, Side::Gguf)
}

/// The side a name is on before it is translated to the other.
#[derive(Clone, Copy)]
enum Side {
    HuggingFace,
    Gguf,
}

impl Side {
    /// Puts the pair in the order (this side, the other).
    fn order<'a>(self, hugging_face: &'a str, gguf: &'a str) -> (&'a str, &'a str) {
        match self {
            Side::HuggingFace => (hugging_face, gguf),
            Side::Gguf => (gguf, hugging_face),
        }
    }
}

fn translate(architecture: &str, name: &str, side: Side) -> Option<String> {
    let (_, set) = ARCHITECTURES
        .iter()
        .find(|(known, _)| *known == architecture)?;
    let suffix = [".weight", ".bias"]
        .into_iter()
        .find(|suffix| name.ends_with(suffix));
    let suffix = suffix.unwrap_or_default();
    let stem = &name[..name.len() - suffix.len()];

    let (from, to) = side.order(HF_LAYER, GGUF_LAYER);
    let Some(inner) = stem.strip_prefix(from) else {
        let mut outer = OUTER.iter().map(|(hf, gguf)| side.order(hf, gguf));
        let (_, other) = outer.find(|(this, _)| *this == stem)?;
        return Some(format!("{other}{suffix}"));
    };
    let (layer, inner) = inner.split_once('.')?;
    if layer.is_empty() || !layer.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let rows = LAYER.iter().filter(|(.., has)| has.0 & set.0 != 0);
    let mut pairs = rows.map(|(hf, gguf, _)| side.order(hf, gguf));
    let (_, other) = pairs.find(|(this, _)| *this == inner)?;
    Some(format!("{to}{layer}.{other}{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_name_agrees_with_the_reference_in_both_directions() {
        let text = include_str!("../../__test__/fixtures/tensor_names.json");
        let reference: BTreeMap<String, BTreeMap<String, String>> =
            serde_json::from_str(text).unwrap();
        assert_eq!(reference.len(), ARCHITECTURES.len());
        for (architecture, names) in &reference {
            for (hf, gguf) in names {
                assert_eq!(
                    to_gguf(architecture, hf).as_ref(),
                    Some(gguf),
                    "{architecture}"
                );
                let back = to_hugging_face(architecture, gguf);
                assert_eq!(back.as_ref(), Some(hf), "{architecture} {gguf}");
            }
            let (_, set) = ARCHITECTURES
                .into_iter()
                .find(|(name, _)| name == architecture)
                .unwrap();
            let rows = LAYER.iter().filter(|(.., has)| has.0 & set.0 != 0).count();
            let outer = names.keys().filter(|name| name.ends_with("weight")).count() - rows;
            // Gemma's head is its embedding, so the reference has no row for it.
            let tied = usize::from(architecture.starts_with("gemma"));
            assert_eq!(
                outer,
                OUTER.len() - tied,
                "{architecture}: every row is compared"
            );
        }
    }

    #[test]
    fn other_names_are_unknown() {
        for name in [
            "model.layers.x.self_attn.q_proj.weight",
            "model.layers..self_attn.q_proj.weight",
            "model.layers.1",
            "model.layers.1.self_attn.qkv_proj.weight",
            "model.layers.1.self_attn.q_norm.weight",
            "visual.blocks.0.attn.qkv.weight",
            "",
        ] {
            assert_eq!(to_gguf("llama", name), None, "{name}");
        }
        assert_eq!(to_gguf("mamba", "lm_head.weight"), None);
        assert_eq!(to_hugging_face("qwen2", "rope_freqs.weight"), None);
    }

    #[test]
    fn module_paths_translate_without_a_suffix() {
        let path = to_gguf("qwen2", "model.layers.12.mlp.up_proj");
        assert_eq!(path.as_deref(), Some("blk.12.ffn_up"));
    }
}
