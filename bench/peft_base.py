"""Writes a GGUF base as PEFT loads it fastest: dequantised, in safetensors.

    python peft_base.py MODEL.gguf FOLDER DTYPE
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

gguf, folder, dtype = sys.argv[1:]
path = Path(gguf)
model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=getattr(torch, dtype))
# The values are plain by now; what says that they came packed would forbid saving.
model.hf_quantizer = None
del model.config.quantization_config
part = Path(f"{folder}.part")
model.save_pretrained(part)
part.rename(folder)
