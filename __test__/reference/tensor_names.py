"""Writes fixtures/tensor_names.json: Hugging Face tensor names and what PyPI gguf calls them, per architecture.

The names come from tiny models that transformers builds, the translations from gguf's own table.
Gemma's head is its embedding: gguf has no name for an `lm_head` there, so it is left out.

Run: python tensor_names.py
"""

import json
from pathlib import Path

import gguf
import torch
import transformers

SIZES = dict(
    vocab_size=32,
    hidden_size=16,
    intermediate_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=8,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)

CONFIGS = {
    "llama": transformers.LlamaConfig(attention_bias=True, mlp_bias=True, **SIZES),
    "qwen2": transformers.Qwen2Config(**SIZES),
    "qwen3": transformers.Qwen3Config(attention_bias=True, **SIZES),
    "gemma2": transformers.Gemma2Config(attention_bias=True, **SIZES),
    "gemma3": transformers.Gemma3TextConfig(attention_bias=True, **SIZES),
    "phi3": transformers.Phi3Config(**SIZES),
}


def names(architecture, config):
    """All tensors of a model with that configuration, tied or not, and their names in GGUF."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    arch = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    table = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    keys = set(model.state_dict()) | {"lm_head.weight"}
    if architecture.startswith("gemma"):
        keys.remove("lm_head.weight")
    translated = {}
    for key in sorted(keys):
        name = table.get_name(key, try_suffixes=(".weight", ".bias"))
        assert name is not None, f"{architecture}: gguf has no name for {key}"
        translated[key] = name
    return translated


target = Path(__file__).parent.parent / "fixtures" / "tensor_names.json"
fixture = {name: names(name, config) for name, config in CONFIGS.items()}
target.write_text(json.dumps(fixture, indent=2) + "\n")
