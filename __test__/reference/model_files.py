"""Writes fixtures/written.gguf and fixtures/written.safetensors with PyPI gguf 0.19.0 and safetensors 0.8.0.

tests/model_files.rs writes the same content with this project's writers and compares the bytes.

Run: python model_files.py
"""

from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGUFValueType as Type
from safetensors.torch import save_file

FIXTURES = Path(__file__).parent.parent / "fixtures"

SCALARS = [
    ("u8", 200, Type.UINT8),
    ("i8", -100, Type.INT8),
    ("u16", 60000, Type.UINT16),
    ("i16", -30000, Type.INT16),
    ("u32", 4000000000, Type.UINT32),
    ("i32", -2000000000, Type.INT32),
    ("f32", 0.1, Type.FLOAT32),
    ("bool", True, Type.BOOL),
    ("string", "Grüße, 世界", Type.STRING),
    ("u64", 2**63 + 1, Type.UINT64),
    ("i64", -(2**62), Type.INT64),
    ("f64", 0.1, Type.FLOAT64),
]

ARRAYS = [
    ("u8s", [0, 255], Type.UINT8),
    ("i8s", [-128, 127], Type.INT8),
    ("u16s", [1, 65535], Type.UINT16),
    ("i16s", [-32768, 1], Type.INT16),
    ("u32s", [1, 2**32 - 1], Type.UINT32),
    ("i32s", [-(2**31), 3], Type.INT32),
    ("f32s", [0.5, -1.25, 3.0], Type.FLOAT32),
    ("bools", [True, False, True], Type.BOOL),
    ("strings", ["<s>", "", "▁the"], Type.STRING),
    ("u64s", [2**64 - 1], Type.UINT64),
    ("i64s", [-(2**63)], Type.INT64),
    ("f64s", [1e300], Type.FLOAT64),
]


def ramp(*shape):
    """Values that are exact in every float type: -3, -2.75, -2.5, ..."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 4 - 3


def write_gguf(path, alignment):
    writer = gguf.GGUFWriter(path, "llama")
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    for key, value, kind in SCALARS:
        writer.add_key_value("test." + key, value, kind)
    for key, value, kind in ARRAYS:
        writer.add_key_value("test." + key, value, Type.ARRAY, kind)
    writer.add_tensor("token_embd.weight", ramp(5, 3))
    writer.add_tensor("output_norm.weight", ramp(3).astype(np.float16))
    packed = gguf.quants.quantize(ramp(2, 32), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("output.weight", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_safetensors(path):
    tensors = {
        "a.weight": torch.from_numpy(ramp(3)).to(torch.float16),
        "z.weight": torch.from_numpy(ramp(5, 3)),
        "b.weight": torch.from_numpy(ramp(2, 1, 2)),
        "m.weight": torch.from_numpy(ramp(3)).to(torch.bfloat16),
        "scalar": torch.tensor(0.5),
    }
    save_file(tensors, path, metadata={"format": "pt"})


write_gguf(FIXTURES / "written.gguf", None)
write_gguf(FIXTURES / "written_aligned_64.gguf", 64)
write_safetensors(FIXTURES / "written.safetensors")
