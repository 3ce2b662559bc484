"""The network of tiny-transformer in plain PyTorch: Llama, with dropout and weights that can feel their GGUF blocks.

Parameter names are those of transformers' LlamaForCausalLM. Quantisation-aware training: with `blocks` every matrix
computes with its Q4_1 values and the embedding with its Q5_1 values, and gradients pass straight through
(Bengio et al. 2013, arXiv:1308.3432), so the rounding of the file costs almost nothing.
"""

import torch
import torch.nn.functional as F
from torch import nn

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "vocab_size": 4096,
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "float32",
}


def to_blocks(w, levels):
    """w as Q4_1 (levels 15) or Q5_1 (levels 31) stores it: per 32 values of a row d·q + m, d and m in f16."""
    x = w.float().unflatten(-1, (-1, 32))
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    d = (high - low) / levels
    q = torch.where(d > 0, (x - low) / d, 0).add(0.5).floor().clamp(0, levels)
    return (q * d.half().float() + low.half().float()).flatten(-2)


def straight_through(w, levels, blocks):
    return w + (to_blocks(w, levels) - w).detach() if blocks else w


class Linear(nn.Module):
    def __init__(self, rows, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, cols) * cols**-0.5)

    def forward(self, x, blocks):
        return F.linear(x, straight_through(self.weight, 15, blocks).to(x.dtype))


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return F.rms_norm(x.float(), x.shape[-1:], self.weight, self.eps)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.groups, self.dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        width = c["hidden_size"]
        self.q_proj = Linear(self.heads * self.dim, width)
        self.k_proj = Linear(self.groups * self.dim, width)
        self.v_proj = Linear(self.groups * self.dim, width)
        self.o_proj = Linear(width, self.heads * self.dim)

    def forward(self, x, cos, sin, blocks):
        def heads(y):
            return y.unflatten(-1, (-1, self.dim)).transpose(1, 2)

        def rope(y):
            a, b = y.chunk(2, -1)
            return (y * cos + torch.cat((-b, a), -1) * sin).to(x.dtype)

        q, k, v = (heads(p(x, blocks)) for p in (self.q_proj, self.k_proj, self.v_proj))
        k, v = (y.repeat_interleave(self.heads // self.groups, 1) for y in (k, v))
        y = F.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).flatten(2), blocks)


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = Linear(c["intermediate_size"], c["hidden_size"])
        self.up_proj = Linear(c["intermediate_size"], c["hidden_size"])
        self.down_proj = Linear(c["hidden_size"], c["intermediate_size"])

    def forward(self, x, blocks):
        return self.down_proj(F.silu(self.gate_proj(x, blocks)) * self.up_proj(x, blocks), blocks)


class Layer(nn.Module):
    def __init__(self, c, dropout):
        super().__init__()
        self.input_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.mlp = MLP(c)
        self.dropout = dropout

    def forward(self, x, cos, sin, blocks, kind):
        y = self.self_attn(self.input_layernorm(x).to(kind), cos, sin, blocks)
        x = x + F.dropout(y, self.dropout, self.training)
        y = self.mlp(self.post_attention_layernorm(x).to(kind), blocks)
        return x + F.dropout(y, self.dropout, self.training)


class Llama(nn.Module):
    def __init__(self, c, dropout=0.0):
        super().__init__()
        self.c, self.blocks, self.dropout = c, True, dropout
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        nn.init.normal_(self.model.embed_tokens.weight, std=c["hidden_size"] ** -0.5)
        self.model.layers = nn.ModuleList(Layer(c, dropout) for _ in range(c["num_hidden_layers"]))
        self.model.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        for layer in self.model.layers:  # the residual stream starts as the embedding
            layer.self_attn.o_proj.weight.data *= (2 * c["num_hidden_layers"]) ** -0.5
            layer.mlp.down_proj.weight.data *= (2 * c["num_hidden_layers"]) ** -0.5

    def forward(self, ids, kind=torch.float32):
        """ids [batch, time] -> logits [batch, time, vocab]; matrices are multiplied in `kind`."""
        x, table = self.hidden(ids, kind)
        return F.linear(self.model.norm(x).to(kind), table.to(kind))

    def hidden(self, ids, kind):
        """ids [batch, time] -> the last layer's output [batch, time, width] and the embedding as computed with."""
        half = self.c["head_dim"] // 2
        angle = torch.arange(ids.shape[1], device=ids.device)[:, None] * self.c["rope_theta"] ** (
            -torch.arange(half, device=ids.device) / half
        )
        cos, sin = torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()
        table = straight_through(self.model.embed_tokens.weight, 31, self.blocks)
        x = F.dropout(F.embedding(ids, table), self.dropout, self.training)
        for layer in self.model.layers:
            x = layer(x, cos, sin, self.blocks, kind)
        return x, table
