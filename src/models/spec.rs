//! What distinguishes one decoder from another, as numbers and choices.

use crate::bail;
use crate::error::Result;
use crate::format::{Config, Key, key};
use crate::models::scaling::read_rope;
use crate::nn::{NormSpec, RopeSpec};
use crate::ops::{Activation, Pairs};

#[derive(Debug, Clone)]
pub struct DecoderSpec {
    pub width: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub mlp_hidden: usize,
    /// The longest context the model was made for, in tokens.
    pub context: usize,
    pub norm: NormSpec,
    pub activation: Activation,
    /// Multiplies q·k.
    pub attention_scale: f32,
    pub attention_cap: Option<f32>,
    pub logit_cap: Option<f32>,
    /// Multiplies the embeddings.
    pub embedding_scale: f32,
    /// Norms on each head of q and k.
    pub head_norm: bool,
    /// Norms after attention and feed-forward as well as before (Gemma).
    pub sandwich_norms: bool,
    /// q, k, v in one matrix, gate and up in another (Phi-3).
    pub fused: bool,
    /// The head is the embedding table.
    pub tied: bool,
    pub pairs: Pairs,
    /// The rotary frequencies in use; layers refer to them by index.
    pub ropes: Vec<RopeSpec>,
    pub layers: Vec<LayerSpec>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerSpec {
    /// A token sees this many tokens including itself.
    pub window: Option<usize>,
    /// Index into [`DecoderSpec::ropes`].
    pub rope: usize,
}

pub const WINDOW: Key = key("sliding_window", "attention.sliding_window");

impl DecoderSpec {
    /// The numbers every family has, with the choices of llama; a family changes what it does differently.
    /// `head_dim`: the size of a head when the file does not say, `None` for width / heads.
    pub fn read(config: &Config, head_dim: Option<usize>) -> Result<DecoderSpec> {
        let width = config.count(key("hidden_size", "embedding_length"))?;
        let heads = config.count(key("num_attention_heads", "attention.head_count"))?;
        let kv_heads =
            config.count_or(key("num_key_value_heads", "attention.head_count_kv"), heads)?;
        let default_dim = head_dim.unwrap_or(width / heads);
        let head_dim = config.count_or(key("head_dim", "attention.key_length"), default_dim)?;
        if !heads.is_multiple_of(kv_heads) {
            bail!(
                BadModel,
                "{heads} attention heads cannot share {kv_heads} key/value heads"
            );
        }
        let value_dim = config.count_or(key("", "attention.value_length"), head_dim)?;
        if value_dim != head_dim {
            bail!(
                UnsupportedModel,
                "heads of {head_dim} channels with values of {value_dim}"
            );
        }
        let layers = config.count(key("num_hidden_layers", "block_count"))?;
        let eps = config.number(key("rms_norm_eps", "attention.layer_norm_rms_epsilon"))?;
        if config
            .number_or(key("num_local_experts", "expert_count"), None)?
            .is_some()
        {
            bail!(
                UnsupportedModel,
                "a mixture of experts cannot be trained in this version"
            );
        }
        Ok(DecoderSpec {
            width,
            heads,
            kv_heads,
            head_dim,
            mlp_hidden: config.count(key("intermediate_size", "feed_forward_length"))?,
            context: config.count(key("max_position_embeddings", "context_length"))?,
            norm: NormSpec {
                eps: eps as f32,
                offset: 0.0,
            },
            activation: activation(config)?,
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            attention_cap: None,
            logit_cap: None,
            embedding_scale: 1.0,
            head_norm: false,
            sandwich_norms: false,
            fused: false,
            tied: config.flag(key("tie_word_embeddings", "")).unwrap_or(false),
            pairs: Pairs::Halves,
            ropes: vec![read_rope(config, head_dim)?],
            layers: vec![
                LayerSpec {
                    window: None,
                    rope: 0
                };
                layers
            ],
        })
    }

    /// Gives the layers for which `slides(layer)` holds a window; a `layer_types` list in the file decides instead.
    pub fn set_windows(
        &mut self,
        config: &Config,
        window: Option<usize>,
        slides: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let types = config.texts("layer_types");
        if let Some(types) = &types
            && types.len() != self.layers.len()
        {
            bail!(
                BadModel,
                "layer_types has {} entries for {} layers",
                types.len(),
                self.layers.len()
            );
        }
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let slides = match types.as_ref().map(|types| types[index]) {
                Some("sliding_attention") => true,
                Some("full_attention") => false,
                Some(other) => bail!(
                    UnsupportedModel,
                    "layer {index} has attention of type {other}"
                ),
                None => slides(index),
            };
            layer.window = window.filter(|_| slides);
        }
        Ok(())
    }
}

/// A window in tokens, `default` when the file does not mention one.
pub fn read_window(config: &Config, default: Option<usize>) -> Result<Option<usize>> {
    let window = config.number_or(WINDOW, default.map(|window| window as f64))?;
    Ok(window.map(|window| window as usize))
}

fn activation(config: &Config) -> Result<Activation> {
    let named = config
        .text(key("hidden_activation", ""))
        .or_else(|| config.text(key("hidden_act", "")));
    match named {
        None | Some("silu" | "swish") => Ok(Activation::Silu),
        Some("gelu_pytorch_tanh" | "gelu_new") => Ok(Activation::GeluTanh),
        Some(other) => bail!(UnsupportedModel, "the activation {other} is not known"),
    }
}
