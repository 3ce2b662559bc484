"""The small models of models.py: one config.json each, as real checkpoints spell it, and what can be switched off in it.

Sizes make errors show: windows (9, 11) and original contexts (16, 28) are shorter than the samples (37 and 23 tokens),
heads are wider than width / heads where the architecture has head_dim, thetas are low enough for every band of a rope
scaling to hold frequencies, soft caps are low enough to bend.
"""

from dataclasses import dataclass, field

from switches import drop_bias, drop_norm, exact_gelu, no_rope, other_head, plain_norms, unscaled_embedding, without

SHARED = {
    "vocab_size": 72,
    "hidden_size": 32,
    "intermediate_size": 28,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.02,
    "attention_dropout": 0.0,
    "use_cache": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float32",
}
LLAMA = SHARED | {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 0.05}
QWEN2 = SHARED | {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "use_sliding_window": False,
    "sliding_window": 11,
    "max_window_layers": 1,
    "tie_word_embeddings": False,
}
GEMMA = SHARED | {
    "hidden_activation": "gelu_pytorch_tanh",
    "rms_norm_eps": 1e-6,
    "head_dim": 12,
    "attention_bias": False,
    "pad_token_id": 0,
    "sliding_window": 9,
}
PHI3 = SHARED | {
    "architectures": ["Phi3ForCausalLM"],
    "model_type": "phi3",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "original_max_position_embeddings": 64,
    "pad_token_id": 2,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attention_bias": False,
    "rope_theta": 100.0,
    "tie_word_embeddings": False,
}
LONGROPE = {
    "long_factor": [1.1, 1.3, 2.0, 2.9, 3.7, 4.4],
    "short_factor": [1.0, 1.05, 1.1, 1.4, 1.7, 2.1],
    "type": "longrope",
}


@dataclass
class Case:
    """config: config.json in the older spelling; v5: commit it as transformers 5 writes it;
    lost: config changes that describe what a GGUF of llama.cpp's converter cannot say;
    short: a second golden of samples this long; switches: {feature: how to turn it off}."""

    config: dict
    switches: dict
    v5: bool = False
    lost: dict = field(default_factory=dict)
    short: tuple = ()


CASES = {
    # As Llama-2-7b: neither head_dim, rope_theta nor attention_bias in the file.
    "llama2": Case(
        LLAMA | {"num_key_value_heads": 4, "pretraining_tp": 1, "rope_scaling": None, "tie_word_embeddings": False},
        {"untied head": other_head, "eps": without(rms_norm_eps=1e-6), "rope": no_rope},
    ),
    "llama_gqa_tied": Case(
        LLAMA | {"rope_theta": 300.0, "rope_scaling": None, "tie_word_embeddings": True, "attention_bias": False},
        {"tied head": other_head, "rope theta": without(rope_theta=10000.0)},
    ),
    "llama3": Case(
        LLAMA
        | {
            "head_dim": 16,
            "rope_theta": 100.0,
            "rope_scaling": {
                "factor": 8.0,
                "high_freq_factor": 4.0,
                "low_freq_factor": 1.0,
                "original_max_position_embeddings": 28,
                "rope_type": "llama3",
            },
            "attention_bias": False,
            "mlp_bias": False,
            "tie_word_embeddings": True,
        },
        {
            "rope scaling": without(rope_scaling=None),
            "smooth band": without(rope_scaling={"rope_type": "linear", "factor": 8.0}),
            "rope theta": without(rope_theta=10000.0),
        },
    ),
    "llama_linear": Case(
        LLAMA | {"rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 4.0}, "tie_word_embeddings": False},
        {"rope scaling": without(rope_scaling=None)},
    ),
    "llama_bias": Case(
        LLAMA
        | {"rope_theta": 100.0, "head_dim": 12, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False},
        {f"{p} bias": drop_bias(p) for p in ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")},
        v5=True,
    ),
    "mistral": Case(
        LLAMA
        | {
            "architectures": ["MistralForCausalLM"],
            "model_type": "mistral",
            "rms_norm_eps": 1e-5,
            "head_dim": 12,
            "rope_theta": 10000.0,
            "sliding_window": 11,
            "tie_word_embeddings": False,
        },
        {"window": without(sliding_window=None), "window is 12": without(sliding_window=12)},
        lost={"sliding_window": None},
    ),
    # The window in the file is not in use: use_sliding_window is false.
    "qwen2": Case(
        QWEN2 | {"tie_word_embeddings": True},
        {f"{p} bias": drop_bias(p) for p in ("q_proj", "k_proj", "v_proj")}
        | {"no window": without(use_sliding_window=True), "rope theta": without(rope_theta=10000.0)},
    ),
    "qwen2_window": Case(
        QWEN2 | {"num_hidden_layers": 3, "use_sliding_window": True},
        {
            "window": without(use_sliding_window=False),
            "first layer has none": without(max_window_layers=0),
            "second layer has one": without(max_window_layers=2),
        },
        lost={"use_sliding_window": False},
    ),
    "qwen2_yarn": Case(
        QWEN2
        | {
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "rope_theta": 100.0,
            "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 16, "type": "yarn"},
        },
        {
            "rope scaling": without(rope_scaling=None),
            "attention factor": without(
                rope_scaling={"factor": 4.0, "original_max_position_embeddings": 16, "type": "yarn", "attention_factor": 1.0}
            ),
            "ramp": without(rope_scaling={"factor": 4.0, "type": "linear"}),
        },
    ),
    "qwen3": Case(
        SHARED
        | {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "head_dim": 12,
            "attention_bias": False,
            "rope_theta": 1000000.0,
            "rope_scaling": None,
            "sliding_window": None,
            "use_sliding_window": False,
            "max_window_layers": 2,
            "tie_word_embeddings": True,
        },
        {"q norm": drop_norm("q_norm"), "k norm": drop_norm("k_norm"), "rope theta": without(rope_theta=10000.0)},
        v5=True,
    ),
    "gemma2": Case(
        GEMMA
        | {
            "architectures": ["Gemma2ForCausalLM"],
            "model_type": "gemma2",
            "num_hidden_layers": 3,
            "hidden_act": "gelu_pytorch_tanh",
            "rope_theta": 10000.0,
            "attn_logit_softcapping": 1.5,
            "final_logit_softcapping": 3.0,
            "query_pre_attn_scalar": 20,
            "cache_implementation": "hybrid",
        },
        {
            "attention soft cap": without(attn_logit_softcapping=None),
            "final soft cap": without(final_logit_softcapping=None),
            "window": without(sliding_window=64),
            "window in every layer": without(layer_types=["sliding_attention"] * 3),
            "odd layers, not even": without(layer_types=["full_attention", "sliding_attention", "full_attention"]),
            "query scale": without(query_pre_attn_scalar=12),
            "embedding scale": unscaled_embedding,
            "norms multiply by 1 + w": plain_norms,
            "norm after attention": drop_norm("post_attention_layernorm"),
            "norm after mlp": drop_norm("post_feedforward_layernorm"),
            "gelu, not silu": without(hidden_activation="silu"),
            "tanh gelu, not exact": exact_gelu,
        },
        lost={"query_pre_attn_scalar": 12},
    ),
    "gemma3": Case(
        GEMMA
        | {
            "architectures": ["Gemma3ForCausalLM"],
            "model_type": "gemma3_text",
            "intermediate_size": 20,
            "num_hidden_layers": 7,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "rope_theta": 1000000.0,
            "rope_local_base_freq": 10000.0,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "sliding_window_pattern": 6,
            "query_pre_attn_scalar": 20,
            "attn_logit_softcapping": None,
            "final_logit_softcapping": None,
            "cache_implementation": "hybrid",
        },
        {
            "global rope scaling": without(rope_scaling=None),
            "global theta": without(rope_theta=10000.0),
            "local theta": without(rope_local_base_freq=1000000.0),
            "window": without(sliding_window=64),
            "pattern of 6": without(sliding_window_pattern=7),
            "q norm": drop_norm("q_norm"),
            "k norm": drop_norm("k_norm"),
            "query scale": without(query_pre_attn_scalar=12),
            "embedding scale": unscaled_embedding,
            "norms multiply by 1 + w": plain_norms,
            "norm before mlp": drop_norm("pre_feedforward_layernorm"),
            "norm after mlp": drop_norm("post_feedforward_layernorm"),
            "gelu, not silu": without(hidden_activation="silu"),
        },
        lost={"query_pre_attn_scalar": 12},
    ),
    "phi3": Case(
        PHI3 | {"sliding_window": 11, "partial_rotary_factor": 0.75, "rope_scaling": None},
        {"window": without(sliding_window=None), "partial rotary": without(partial_rotary_factor=1.0)},
        v5=True,
    ),
    "phi3_longrope": Case(
        PHI3
        | {
            "original_max_position_embeddings": 16,
            "sliding_window": 64,
            "partial_rotary_factor": 0.75,
            "rope_scaling": LONGROPE,
            "tie_word_embeddings": True,
        },
        {
            "rope scaling": without(rope_scaling=None),
            "long factors": without(rope_scaling=LONGROPE | {"long_factor": LONGROPE["short_factor"]}),
            "attention factor": without(rope_scaling=LONGROPE | {"attention_factor": 1.0}),
            "partial rotary": without(
                partial_rotary_factor=1.0,
                rope_scaling={
                    "long_factor": LONGROPE["long_factor"] + [5.0, 6.0],
                    "short_factor": LONGROPE["short_factor"] + [2.5, 3.0],
                    "type": "longrope",
                },
            ),
        },
        short=(15, 11),
    ),
}
