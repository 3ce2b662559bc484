"""Times training steps of PEFT on a GGUF base, dequantised: one line of seconds a step.

    python peft_step.py MODEL.gguf TEXT DTYPE BATCH TOKENS STEPS THREADS CHECKPOINTING

TOKENS: of each of the BATCH samples of a step. CHECKPOINTING: on or off.
"""

import sys
import time
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

gguf, text, dtype, batch, tokens, steps, threads, checkpointing = sys.argv[1:]
batch, tokens, steps = int(batch), int(tokens), int(steps)
torch.set_num_threads(int(threads))
torch.manual_seed(0)
path = Path(gguf)
model = AutoModelForCausalLM.from_pretrained(
    path.parent, gguf_file=path.name, dtype=getattr(torch, dtype), attn_implementation="sdpa"
)
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
    print(time.perf_counter() - start, flush=True)
