"""Runs every GGUF fixture in llama.cpp and compares the logits with the golden that the fixture names.

    pip install cyllama==0.2.18 && python check_llamacpp.py 2>/dev/null

One token at a time, f32 cache, no flash attention. Prints the largest difference relative to the largest |logit| and
exits with 1 where it is above the bound: 1e-5, and 2e-3 for gemma, since ggml looks GELU up in a table of f16.
Two goldens are left out because llama.cpp decides otherwise: phi3 (it ignores that architecture's window) and
phi3_longrope's short one (it picks the factors by the size of the context, which is at least 256, not by the text).
"""

import json
import sys
from pathlib import Path

import cyllama.llama.llama_cpp as llama
import numpy as np
from safetensors.numpy import load_file

MODELS = Path(__file__).parent.parent / "fixtures" / "models"


class Model(llama.LlamaModel):
    n_vocab = 72  # LlamaContext.get_logits of cyllama 0.2.18 asks for it


def logits_of(model, ids):
    params = llama.LlamaContextParams()
    params.n_ctx, params.type_k, params.type_v, params.flash_attn_type = 64, 0, 0, 0
    context = llama.LlamaContext(model, params, verbose=False)
    rows = []
    for position, token in enumerate(ids):
        batch = llama.LlamaBatch(n_tokens=1, embd=0, n_seq_max=1)
        batch.add(token, position, [0], True)
        context.decode(batch)
        rows.append(context.get_logits()[: Model.n_vocab])
    return np.array(rows)


if __name__ == "__main__":
    bad = 0
    for folder in sorted(MODELS.iterdir()):
        if folder.name == "phi3":
            continue
        stem = json.loads((folder / "golden.json").read_text())["gguf"]["golden"]
        facts = json.loads((folder / f"{stem}.json").read_text())
        golden = load_file(folder / f"{stem}.safetensors")
        model = Model(str(folder / "model.gguf"), verbose=False)
        worst = 0
        for i, ids in enumerate(facts["input_ids"]):
            want = golden[f"logits.{i}"]
            worst = max(worst, abs(logits_of(model, ids) - want).max() / abs(want).max())
        fine = worst < (2e-3 if folder.name.startswith("gemma") else 1e-5)
        print(f"{folder.name:16} {stem:12} {worst:.1e} {'' if fine else 'DIFFERS'}")
        bad += not fine
    sys.exit(bad > 0)
