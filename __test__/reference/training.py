"""Ten optimizer steps in PyTorch on llama_gqa_tied and the adapter of its golden: losses, gradient norms, final A and B.

    python training.py        writes ../fixtures/training/ (after models.py)

Each step takes both samples, one after the other, and divides by the target tokens of both; gradients are clipped to
norm 0.5. AdamW and SGD are torch.optim's, in float64; float32 copies are stored.
Learning rate of step s = 1..T with N steps of warmup: lr * s / N while s <= N, afterwards Hugging Face's curve, which
counts from 0: lr * (1 + cos(pi * p)) / 2 with p = (s - 1 - N) / (T - N).
Made with torch 2.15.0, transformers 5.24.0, peft 0.21.2.
"""

import json
import math
from pathlib import Path

import torch
import transformers
from peft import PeftModel
from safetensors.torch import load_file, save_file

import models

MODEL = "llama_gqa_tied"
OUT = models.OUT.parent / "training"
STEPS, WARMUP, CLIP, DECAY = 10, 3, 0.5, 0.1
OPTIMIZERS = {
    "adamw": (1e-2, lambda p, lr: torch.optim.AdamW(p, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=DECAY)),
    "sgd": (0.5, lambda p, lr: torch.optim.SGD(p, lr, weight_decay=DECAY)),
}


def factor(scheduler, step):
    """What the learning rate is multiplied by in step 1..STEPS."""
    if scheduler != "constant" and step <= WARMUP:
        return step / WARMUP
    progress = (step - 1 - WARMUP) / (STEPS - WARMUP)
    return {"constant": 1, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}[scheduler]


def train(name, samples, adapter):
    """({PEFT key: tensor}, facts) of one run."""
    model = models.with_adapter(models.load(models.OUT / MODEL), adapter)
    weights = models.trained(model)
    lr, make = OPTIMIZERS[name]
    optimizer = make(weights.values(), lr)
    tokens = sum(len(ids) - 1 for ids in samples)
    facts = {"lr": [], "loss": [], "grad_norm": []}
    for step in range(1, STEPS + 1):
        optimizer.param_groups[0]["lr"] = lr * factor("cosine", step)
        total = 0.0
        for ids in samples:
            logits = model(torch.tensor([ids])).logits[0].double()
            loss = models.losses_of(logits, ids).sum() / tokens
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(weights.values(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        facts["lr"].append(optimizer.param_groups[0]["lr"])
        facts["loss"].append(total)
        facts["grad_norm"].append(norm.item())
    with torch.no_grad():
        after = [models.losses_of(model(torch.tensor([ids])).logits[0].double(), ids) for ids in samples]
    facts["after_loss"] = torch.cat(after).mean().item()
    return {key: p.detach() for key, p in weights.items()}, facts


def save_adapter(folder, adapter):
    """A directory that PEFT loads."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {key: w.float().contiguous() for key, w in adapter.items()}
    save_file(tensors, folder / "adapter_model.safetensors", {"format": "pt"})
    config = {
        "base_model_name_or_path": MODEL,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_alpha": models.ALPHA,
        "lora_dropout": 0.0,
        "peft_type": "LORA",
        "r": models.RANK,
        "target_modules": models.targets(adapter),
        "task_type": "CAUSAL_LM",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


def check_adapter(folder, samples, loss):
    """PEFT, loading the directory, finds the loss that the run ended with."""
    model = PeftModel.from_pretrained(models.load(models.OUT / MODEL), folder).double()
    found = torch.cat([models.losses_of(models.logits_of(model, ids), ids) for ids in samples]).mean().item()
    assert abs(found - loss) < 1e-5, (folder, found, loss)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    golden = json.loads((models.OUT / MODEL / "golden.json").read_text())
    tensors = load_file(models.OUT / MODEL / "golden.safetensors")
    adapter = {key: w for key, w in tensors.items() if key.startswith("base_model.")}
    samples = golden["input_ids"]
    save_adapter(OUT / "init_adapter", adapter)
    check_adapter(OUT / "init_adapter", samples, golden["adapter_loss"])
    expected = {
        "model": MODEL,
        "input_ids": samples,
        "steps": STEPS,
        "warmup": WARMUP,
        "scheduler": "cosine",
        "max_grad_norm": CLIP,
        "weight_decay": DECAY,
        "betas": [0.9, 0.999],
        "eps": 1e-8,
        "factors": {s: [factor(s, step) for step in range(1, STEPS + 1)] for s in ("constant", "linear", "cosine")},
    }
    for name, (lr, _) in OPTIMIZERS.items():
        final, facts = train(name, samples, adapter)
        save_adapter(OUT / name, final)
        check_adapter(OUT / name, samples, facts["after_loss"])
        expected[name] = {"base_lr": lr} | facts
        print(name, [round(x, 4) for x in facts["loss"]], round(facts["after_loss"], 4))
    expected["made_with"] = golden["made_with"]
    lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in expected.items())
    (OUT / "expected.json").write_text(f"{{\n{lines}\n}}\n")
