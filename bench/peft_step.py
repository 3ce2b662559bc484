"""Times training steps of PEFT on a dequantised base: a line of JSON for each step, and one at the end.

    python peft_step.py MODEL TEXT DTYPE BATCH TOKENS STEPS THREADS CHECKPOINTING

MODEL: the folder that peft_base.py writes. TOKENS: of each of the BATCH samples of a step. CHECKPOINTING: on or off.
"""

import json
import re
import sys
import time
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM


def cuda_bytes():
    """Resident pages of CUDA's libraries, which the wheel of PyPI loads and nothing on a CPU needs."""
    total, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            counts = re.search(r"/nvidia/|cuda", line) is not None
        elif counts and line.startswith("Rss:"):
            total += 1024 * int(line.split()[1])
    return total


model, text, dtype, batch, tokens, steps, threads, checkpointing = sys.argv[1:]
batch, tokens, steps = int(batch), int(tokens), int(steps)
torch.set_num_threads(int(threads))
torch.manual_seed(0)
model = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype), attn_implementation="sdpa")
targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=targets, task_type="CAUSAL_LM"))
if checkpointing == "on":
    model.gradient_checkpointing_enable({"use_reentrant": False})
model.train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, weight_decay=0.0)
# Any ids of the vocabulary cost the same; those of the text's bytes need no tokenizer.
ids = torch.tensor(list(Path(text).read_bytes()[: steps * batch * tokens])).view(steps, batch, tokens)
for step in ids:
    start = time.perf_counter()
    loss = model(input_ids=step, labels=step, use_cache=False).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)
print(json.dumps({"cudaBytes": cuda_bytes()}))
