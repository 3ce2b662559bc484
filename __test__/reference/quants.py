"""Writes __test__/fixtures/quants.safetensors: packed blocks of every format and the f32 values they stand for.

    python3 -m venv .venv
    .venv/bin/pip install gguf==0.19.0 numpy==2.4.6 safetensors==0.8.0
    .venv/bin/python __test__/reference/quants.py

The reference is `gguf.quants.dequantize`. Per format NAME the file holds
    NAME.packed  u8 [bytes]      whole blocks
    NAME.values  f32 [elements]  what they unpack to
    NAME.layout  i32 [3]         GGML type id, elements per block, bytes per block (GGML_QUANT_SIZES)
    NAME.quantised  u8           what `gguf.quants.quantize` makes of `numbers`, for formats that are written
    numbers  f32                 random, with blocks of zeros, of one value, of ties and of large and tiny values
and its metadata `ggml_types` is a JSON object {id: name} of all types gguf knows.
"""

import json
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize
from safetensors.numpy import save_file

FIXTURE = Path(__file__).parent.parent / "fixtures" / "quants.safetensors"

# Where the f16 numbers of a block lie, in bytes.
HALVES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
}
QUANTISABLE = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]

# Ordinary, negative, the least and a larger subnormal, the largest, and both zeros.
SCALES = np.array(
    [0.0123, -0.0371, 2**-24, -700 * 2**-24, 65504, -0.0, 0.0, 1.5], dtype=np.float16
)


def random_blocks(name, random):
    """One block of random bytes per scale; a second f16 number goes through the scales in another order."""
    size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
    blocks = random.integers(0, 256, (len(SCALES), size), dtype=np.uint8)
    for turn, at in enumerate(HALVES[name]):
        halves = np.roll(SCALES, 3 * turn).view(np.uint8).reshape(-1, 2)
        blocks[:, at : at + 2] = halves
    return blocks.ravel()


def floats(name, random):
    """Random numbers, then the values at which conversions go wrong: zeros, subnormals, infinities, a quiet NaN."""
    special = [0.0, -0.0, 2**-24, -1023 * 2**-24, 2**-14, 65504, np.inf, -np.inf, np.nan]
    numbers = np.concatenate([random.standard_normal(300), special]).astype(np.float32)
    if name == "BF16":
        numbers = np.append(numbers, np.float32(1e-40))
    return quantize(numbers, GGMLQuantizationType[name]).view(np.uint8)


def packed_bytes(name, random):
    if name not in HALVES:
        return floats(name, random)
    blocks = random_blocks(name, random)
    if name in QUANTISABLE:
        numbers = random.standard_normal(4 * 32).astype(np.float32)
        blocks = np.append(blocks, quantize(numbers, GGMLQuantizationType[name]))
    return blocks


def numbers():
    """Blocks of 32 to quantise, finite and in range of all formats. Drawn apart, so that the packed blocks stay as they are."""
    random = np.random.default_rng(21)
    blocks = random.standard_normal((40, 32)).astype(np.float32)
    blocks[1] = 0
    blocks[2] = 0.75
    blocks[3] = -blocks[4]
    blocks[5] = np.arange(32) - 16
    blocks[6] = (np.arange(32) - 16) / 2
    blocks[7] *= 3e4 / abs(blocks[7]).max()
    blocks[8] *= np.float32(1e-7)
    blocks[9, 1:] = 0
    blocks[10] = np.repeat([1.0, -1.0], 16)
    return blocks.ravel()


def main():
    random = np.random.default_rng(20)
    tensors = {"numbers": numbers()}
    for name in ["F32", "F16", "BF16", *HALVES]:
        kind = GGMLQuantizationType[name]
        packed = packed_bytes(name, random)
        tensors[f"{name}.packed"] = packed
        tensors[f"{name}.values"] = dequantize(packed, kind).ravel()
        if name in ["F32", "F16", "BF16", *QUANTISABLE]:
            quantised = np.atleast_1d(quantize(tensors["numbers"], kind)).view(np.uint8)
            tensors[f"{name}.quantised"] = quantised.ravel()
        tensors[f"{name}.layout"] = np.array([kind, *GGML_QUANT_SIZES[kind]], dtype=np.int32)
    names = {int(kind): kind.name for kind in GGMLQuantizationType}
    save_file(tensors, FIXTURE, {"ggml_types": json.dumps(names)})


main()
