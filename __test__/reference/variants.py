"""Ten AdamW steps in PyTorch with every kind of adapter that PEFT has and we train: logits, gradients, losses.

    python variants.py [VARIANT ...]        writes ../fixtures/variants/ (after models.py)

The base is llama_bias: biases everywhere, grouped heads, a head of its own. `quantised` has the weights that its Q4_0
file stands for. Each variant is a directory that PEFT saved, with A, B and magnitudes drawn at random as the start.
Models are in float64; float32 copies are stored. Dropout masks are ours, drawn here by the same counters, so that PEFT
computes with the very masks of a run.
Made with torch 2.15.0, transformers 5.24.0, peft 0.21.2, gguf 0.19.0.
"""

import json
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

import gguf
import numpy as np
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

import gguf_export
import models

MODEL = "llama_bias"
OUT = models.OUT.parent / "variants"
STEPS, LR, CLIP = 10, 1e-2, 1.0
BASE_Q4 = "base_q4_0.gguf"
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
EVERYTHING = {
    "use_dora": True,
    "use_rslora": True,
    "rank_pattern": {"embed_tokens": 2, r"layers\.1\..*k_proj": 4},
    "alpha_pattern": {"lm_head": 2.5},
    "target_modules": [*LINEAR, "embed_tokens", "lm_head"],
}
VARIANTS = {
    "dropout": {"lora_dropout": 0.25},
    "dora": {"use_dora": True},
    "dora_dropout": {"use_dora": True, "lora_dropout": 0.25},
    "rslora": {"use_rslora": True},
    "patterns": {
        "rank_pattern": {"k_proj": 2, r"model\.layers\.1\.mlp\.(gate|up)_proj": 5},
        "alpha_pattern": {"self_attn.v_proj": 1.5, "layers.0.mlp.down_proj": 9},
    },
    "layers": {"layers_to_transform": [1], "target_modules": ["q_proj", "v_proj", "gate_proj"]},
    "embeddings": {"target_modules": ["embed_tokens", "lm_head", "q_proj"]},
    "everything": EVERYTHING,
    "quantised": EVERYTHING,
}


def load_base(name):
    folder = models.OUT / MODEL
    if name != "quantised":
        return models.load(folder)
    with tempfile.TemporaryDirectory() as other:
        other = Path(other)
        shutil.copy(folder / "config.json", other)
        weights = {k: torch.from_numpy(rounded(w.numpy())) for k, w in load_file(folder / "model.safetensors").items()}
        save_file(weights, other / "model.safetensors", {"format": "pt"})
        return models.load(other)


def rounded(weight, kind=gguf.GGMLQuantizationType.Q4_0):
    """What is left of a weight in the GGUF file; the order of rows does not matter to it."""
    if weight.ndim == 1:
        return weight
    if weight.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]:
        kind = gguf.GGMLQuantizationType.F16
    return gguf.quants.dequantize(gguf.quants.quantize(weight, kind), kind).astype(np.float32)


def adapted(name, config):
    """The PEFT model with its random start, and the magnitudes that PEFT gave it at first."""
    rng = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    settings = {"r": models.RANK, "lora_alpha": models.ALPHA, "target_modules": LINEAR, "task_type": "CAUSAL_LM"}
    model = peft.get_peft_model(load_base(name), peft.LoraConfig(**settings | config)).double()
    initial = {}
    for key, p in models.trained(model).items():
        noise = torch.randn(p.shape, generator=rng, dtype=torch.float32).double()
        if "magnitude" in key:
            initial[f"initial.{saved_name(key)}"] = p.detach().clone()
            p.data *= 1 + 0.2 * noise
        else:
            p.data = 0.2 * noise
        # The file holds float32.
        p.data = p.data.float().double()
    return model, initial


def saved_name(key):
    return key.replace("lora_magnitude_vector.weight", "lora_magnitude_vector")


# The counters of src/tensor/random.rs: SplitMix64.
GOLDEN, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1


def mix(bits):
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def fork(state, label):
    return mix(state ^ mix((label + GOLDEN) & MASK))


def named(state, name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return fork(state, value)


class Mask(torch.nn.Module):
    """Drops what a run drops: a function of seed 0, step, path, sample, position and channel."""

    step = sample = 0

    def __init__(self, path, rate):
        super().__init__()
        self.path, self.rate = path, rate

    def forward(self, x):
        stream = fork(named(fork(mix(GOLDEN), Mask.step), self.path), Mask.sample)
        keep = torch.zeros(x.shape[1:], dtype=x.dtype)
        for position in range(x.shape[1]):
            row = fork(stream, position)
            for channel in range(x.shape[2]):
                value = mix((row + channel * GOLDEN) & MASK) >> 40
                keep[position, channel] = float(value / (1 << 24) >= float(np.float32(self.rate)))
        return x * keep / (1 - self.rate)


def train(model, samples, rate):
    """(gradients of the first step, facts)"""
    if rate:
        for path, module in model.base_model.model.named_modules():
            if isinstance(module, peft.tuners.lora.Linear):
                module.lora_dropout["default"] = Mask(path, rate)
        model.train()
    weights = models.trained(model)
    optimizer = torch.optim.AdamW(weights.values(), LR, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    tokens = sum(len(ids) - 1 for ids in samples)
    facts, first = {"loss": [], "grad_norm": []}, None
    for Mask.step in range(1, STEPS + 1):
        total = 0.0
        for Mask.sample, ids in enumerate(samples):
            logits = model(torch.tensor([ids])).logits[0].double()
            loss = models.losses_of(logits, ids).sum() / tokens
            loss.backward()
            total += loss.item()
        first = first or {f"grad.{saved_name(key)}": p.grad.clone() for key, p in weights.items()}
        norm = torch.nn.utils.clip_grad_norm_(weights.values(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        facts["loss"].append(total)
        facts["grad_norm"].append(norm.item())
    return first, facts


def save(model, folder):
    """The directory as PEFT writes it; only what changes from run to run is settled."""
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    file = folder / "adapter_config.json"
    config = json.loads(file.read_text())
    config["base_model_name_or_path"] = MODEL
    config["target_modules"].sort()
    file.write_text(json.dumps(config, indent=2) + "\n")


def make(name, config, samples):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model, initial = adapted(name, config)
    model.eval()
    out = {f"logits.{i}": models.logits_of(model, ids) for i, ids in enumerate(samples)}
    save(model.float(), folder)
    gradients, facts = train(model.double(), samples, config.get("lora_dropout", 0))
    out |= gradients | initial
    save_file({k: v.float().contiguous() for k, v in out.items()}, folder / "expected.safetensors")
    (folder / "expected.json").write_text(json.dumps(facts, indent=2) + "\n")
    print(name, [round(x, 4) for x in facts["loss"]])


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    OUT.mkdir(exist_ok=True)
    gguf_export.export(models.OUT / MODEL, OUT / BASE_Q4, "Q4_0", tokenizer=False)
    samples = json.loads((models.OUT / MODEL / "golden.json").read_text())["input_ids"]
    run = {"model": MODEL, "quantised": BASE_Q4, "input_ids": samples, "lr": LR, "max_grad_norm": CLIP}
    (OUT / "run.json").write_text(json.dumps(run) + "\n")
    for name in sys.argv[1:] or VARIANTS:
        make(name, VARIANTS[name], samples)
