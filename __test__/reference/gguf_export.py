"""Writes a Hugging Face directory as GGUF: names, q/k order, norms and keys as llama.cpp's converter has them.

    python gguf_export.py HF_DIR OUT.gguf [--quant Q4_0] [--no-tokenizer]

Reads config.json (the spelling of transformers 5 and the older one), model*.safetensors and, unless told not to,
tokenizer.json (byte-level BPE). Architectures: llama, mistral, qwen2, qwen3, gemma2, gemma3_text, phi3.
Made with gguf 0.19.0. `check_export.py` compares the result with the official converter.
"""

import argparse
import json
import math
from pathlib import Path

import gguf
import numpy as np
from safetensors import safe_open

import gguf_tokenizer

# model_type -> GGUF architecture
ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "phi3": "phi3",
}
TOP = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
GEMMA_LAYER = LAYER | {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
FILE_TYPES = {"F32": "ALL_F32"}  # every other type is MOSTLY_<type>


def export(hf_dir, out_gguf, quant="F32", tokenizer=True, pre=None, overrides=None, name=None, metadata=None):
    """Writes the model in `hf_dir` to the file `out_gguf`.

    quant: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, TQ1_0, TQ2_0 (what PyPI gguf can encode) for all matrices;
      vectors and norms stay F32, and a row that is no whole number of blocks becomes F16.
    tokenizer: False writes tokenizer.ggml.model = "none" and only the vocabulary size.
    pre: tokenizer.ggml.pre; None derives it from tokenizer.json.
    overrides: {GGUF tensor name: type} for single tensors, e.g. {"token_embd.weight": "Q8_0"}.
    metadata: {GGUF key: string or list of strings} to write besides, e.g. {"general.license": "apache-2.0"}.
    """
    hf_dir = Path(hf_dir)
    config = json.loads((hf_dir / "config.json").read_text())
    arch = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(str(out_gguf), arch)
    writer.add_type("model")
    writer.add_name(name or hf_dir.name)
    writer.add_file_type(gguf.LlamaFileType[FILE_TYPES.get(quant, f"MOSTLY_{quant}")])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for key, value in (metadata or {}).items():
        (writer.add_string if isinstance(value, str) else writer.add_array)(key, value)
    add_hparams(writer, arch, config)
    if arch == "llama" or not tokenizer:
        writer.add_vocab_size(config["vocab_size"])
    if tokenizer:
        gguf_tokenizer.add(writer, hf_dir, config, pre)
    else:
        writer.add_tokenizer_model("none")
    for tensor, data in tensors(hf_dir, arch, config):
        add_tensor(writer, tensor, data, (overrides or {}).get(tensor, quant))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rope_of(config):
    """(parameters of the global rope, theta of the local one or None), whatever the spelling.

    transformers 5 has "rope_parameters", for gemma3 one per layer type; older files have "rope_theta" and
    "rope_scaling" with "type" or "rope_type", and gemma3 "rope_local_base_freq".
    """
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    local = rope.get("sliding_attention", {}).get("rope_theta", config.get("rope_local_base_freq"))
    rope = dict(rope.get("full_attention", rope))
    rope.setdefault("rope_type", rope.get("type", "default"))
    # What an older file leaves out is the default of the architecture's configuration class.
    rope.setdefault("rope_theta", config.get("rope_theta", 1e6 if config["model_type"] == "gemma3_text" else 1e4))
    for key in ("original_max_position_embeddings", "partial_rotary_factor"):
        if key in config:
            rope.setdefault(key, config[key])
    return rope, local


def add_hparams(writer, arch, config):
    """The `<arch>.*` keys that llama.cpp reads. A window is written for gemma and phi3 only: the other
    architectures have no key for it in llama.cpp, so a GGUF of Mistral or Qwen2 attends without one."""
    heads, width = config["num_attention_heads"], config["hidden_size"]
    rope, local_theta = rope_of(config)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads") or heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    head_dim = config.get("head_dim") or width // heads
    if arch != "phi3" and (arch == "llama" or config.get("head_dim")):
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if arch == "llama":
        writer.add_rope_dimension_count(head_dim)
    if arch != "gemma2":
        writer.add_rope_freq_base(rope["rope_theta"])
    if local_theta:
        writer.add_rope_freq_base_swa(local_theta)
    if arch == "phi3":
        writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1.0)))
        add_phi3(writer, config, rope)
    elif rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
        if rope["rope_type"] == "yarn":
            add_yarn(writer, config, rope)
    if arch.startswith("gemma"):
        writer.add_sliding_window(config["sliding_window"])
        if config.get("attn_logit_softcapping"):
            writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        if config.get("final_logit_softcapping"):
            writer.add_final_logit_softcapping(config["final_logit_softcapping"])


def add_yarn(writer, config, rope):
    writer.add_rope_scaling_orig_ctx_len(rope.get("original_max_position_embeddings", config["max_position_embeddings"]))
    if rope.get("attention_factor") is not None:
        writer.add_rope_scaling_yarn_attn_factor(rope["attention_factor"])
    if rope.get("beta_fast") is not None:
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
    if rope.get("beta_slow") is not None:
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])


def add_phi3(writer, config, rope):
    """phi3 always says its original context; window 0 means none; longrope's attention factor is precomputed."""
    original = rope.get("original_max_position_embeddings", config["max_position_embeddings"])
    writer.add_rope_scaling_orig_ctx_len(original)
    writer.add_sliding_window(config.get("sliding_window") or 0)
    if rope.get("long_factor"):
        scale = config["max_position_embeddings"] / original
        factor = math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0
        writer.add_rope_scaling_attn_factors(factor)


def tensors(hf_dir, arch, config):
    """Yields (GGUF name, numpy array as stored) for every tensor, the computed rope factors first."""
    rope, _ = rope_of(config)
    if rope["rope_type"] == "llama3":
        yield "rope_freqs.weight", llama3_divisors(config, rope)
    if arch == "phi3" and rope.get("long_factor"):
        yield "rope_factors_long.weight", np.array(rope["long_factor"], np.float32)
        yield "rope_factors_short.weight", np.array(rope["short_factor"], np.float32)
    heads = config["num_attention_heads"]
    groups = config.get("num_key_value_heads") or heads
    tied = config.get("tie_word_embeddings", arch.startswith("gemma"))
    for file in sorted(hf_dir.glob("model*.safetensors")):
        with safe_open(file, "pt") as source:
            for key in source.keys():
                if key == "lm_head.weight" and tied:
                    continue
                data = source.get_tensor(key).float().numpy()
                if arch == "llama" and ".q_proj." in key:
                    data = interleave(data, heads)
                elif arch == "llama" and ".k_proj." in key:
                    data = interleave(data, groups)
                elif arch.startswith("gemma") and key.endswith("norm.weight"):
                    data = data + 1  # gemma stores w and multiplies by 1 + w
                yield gguf_name(key, arch), data


def gguf_name(key, arch):
    """model.layers.3.self_attn.q_proj.weight -> blk.3.attn_q.weight"""
    path, kind = key.rsplit(".", 1)
    if path in TOP:
        return f"{TOP[path]}.{kind}"
    layer, part = path.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{(GEMMA_LAYER if arch.startswith('gemma') else LAYER)[part]}.{kind}"


def interleave(w, heads):
    """Rows of each head from (first half, second half) to pairs (i, i + dim/2) side by side: llama.cpp's rope order."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def llama3_divisors(config, rope):
    """What each rope frequency is divided by, [dim/2]: 1 for short waves, `factor` for long ones, smooth between.

    Source: "Llama 3.1" rope scaling, modeling_rope_utils.py of transformers.
    """
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    wavelength = 2 * np.pi * rope["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    turns = rope["original_max_position_embeddings"] / wavelength
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def add_tensor(writer, name, data, quant):
    data = np.ascontiguousarray(data, np.float32)
    kind = gguf.GGMLQuantizationType[quant]
    if data.ndim == 1 or name.endswith("norm.weight"):
        kind = gguf.GGMLQuantizationType.F32
    elif data.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]:
        kind = gguf.GGMLQuantizationType.F16
    writer.add_tensor(name, gguf.quants.quantize(data, kind), raw_dtype=kind)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hf_dir")
    parser.add_argument("out_gguf")
    parser.add_argument("--quant", default="F32")
    parser.add_argument("--pre", help="tokenizer.ggml.pre, when tokenizer.json does not show it")
    parser.add_argument("--no-tokenizer", action="store_true")
    args = parser.parse_args()
    export(args.hf_dir, args.out_gguf, args.quant, not args.no_tokenizer, args.pre)
