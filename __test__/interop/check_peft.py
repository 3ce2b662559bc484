"""Loads the adapter directories with transformers and PEFT and compares logits and keys with ours.

    python check_peft.py OUT        OUT: what `cargo run --example interop -- OUT` wrote

PEFT loads what it recognises and is silent about the rest, so the names of the file and those of the loaded model are
compared as sets, and every value. Exits with 1 when something differs.
"""

import json
import sys
from pathlib import Path

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

MODELS = Path(__file__).parent.parent / "fixtures" / "models"
LOGITS = 1e-3  # largest difference


def largest_difference(model, ids, expected):
    with torch.no_grad():
        rows = [model(torch.tensor([sample])).logits[0] for sample in ids]
    return max((row - torch.tensor(want)).abs().max().item() for row, want in zip(rows, expected))


def key_problems(model, file):
    """What the file and the loaded adapter do not have in common."""
    stored = load_file(file)
    loaded = get_peft_model_state_dict(model, save_embedding_layers=False)
    yield from (f"unexpected {name}" for name in sorted(stored.keys() - loaded.keys()))
    yield from (f"missing {name}" for name in sorted(loaded.keys() - stored.keys()))
    for name in stored.keys() & loaded.keys():
        if not torch.equal(stored[name], loaded[name]):
            yield f"{name} has other values"


def check(case, out):
    """Yields (ok, line)."""
    expected = json.loads((out / "safetensors.json").read_text())
    ids = expected["input_ids"]
    # Trained from either kind of base, the adapter must act the same on this one.
    for kind in ("safetensors", "gguf"):
        model = AutoModelForCausalLM.from_pretrained(MODELS / case, dtype=torch.float32, attn_implementation="eager")
        difference = largest_difference(model.eval(), ids, expected["base"])
        if kind == "safetensors":
            yield difference <= LOGITS, f"{case}: base {difference:.1e}"
        model = PeftModel.from_pretrained(model, out / kind).eval()
        problems = list(key_problems(model, out / kind / "adapter_model.safetensors"))
        difference = largest_difference(model, ids, expected["adapter"])
        line = f"{case}, adapter trained from {kind}: {difference:.1e}, " + (", ".join(problems) or "all keys")
        yield difference <= LOGITS and not problems, line
    if (out / "merged").exists():
        merged = AutoModelForCausalLM.from_pretrained(out / "merged", dtype=torch.float32, attn_implementation="eager")
        difference = largest_difference(merged.eval(), ids, expected["adapter"])
        yield difference <= LOGITS, f"{case}, merged: {difference:.1e}"


if __name__ == "__main__":
    logging.disable_progress_bar()
    failures = 0
    for folder in sorted(Path(sys.argv[1]).iterdir()):
        if not (folder / "safetensors.json").exists():
            continue
        for ok, line in check(folder.name, folder):
            print("ok    " if ok else "DIFFER", line, flush=True)
            failures += not ok
    sys.exit(failures > 0)
