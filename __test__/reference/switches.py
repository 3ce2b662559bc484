"""Turns one feature of a small model off, to show that a golden would notice its absence.

A switch edits the parsed config.json or the loaded model; models.py measures how far the logits move.
"""

from dataclasses import dataclass, field
from typing import Callable

import torch


@dataclass
class Switch:
    """config: keys to change before the model is built; model: what to do to it afterwards;
    required: False for a row that only informs, because the two sides differ by less than any test could demand."""

    config: dict = field(default_factory=dict)
    model: Callable = lambda model: None
    required: bool = True


def without(**changes):
    return Switch(config=changes)


def drop_bias(projection):
    """Zeroes the bias of every layer's `projection`."""

    def patch(model):
        for name, p in model.named_parameters():
            if name.endswith(f"{projection}.bias"):
                p.data.zero_()

    return Switch(model=patch)


def drop_norm(norm):
    """Replaces every layer's norm of that name by the identity."""

    def patch(model):
        for name, module in list(model.named_modules()):
            if name.endswith(f".{norm}"):
                parent, leaf = name.rsplit(".", 1)
                setattr(model.get_submodule(parent), leaf, torch.nn.Identity())

    return Switch(model=patch)


def _no_rope(model):
    for name, buffer in model.named_buffers():
        if name.endswith("inv_freq"):
            buffer.zero_()


def _plain_norms(model):
    for name, p in model.named_parameters():
        if name.endswith("norm.weight"):
            p.data -= 1


def _exact_gelu(model):
    for layer in model.model.layers:
        layer.mlp.act_fn = torch.nn.GELU()


def _other_head(model):
    """A head of its own for a tied model, the embedding for an untied one."""
    weight = model.model.embed_tokens.weight
    tied = model.lm_head.weight is weight
    model.lm_head.weight = torch.nn.Parameter(weight.roll(1, 0) if tied else weight.detach().clone())


no_rope = Switch(model=_no_rope)
plain_norms = Switch(model=_plain_norms)
exact_gelu = Switch(model=_exact_gelu, required=False)
other_head = Switch(model=_other_head)
unscaled_embedding = Switch(model=lambda model: model.model.embed_tokens.embed_scale.fill_(1.0))
