"""Writes __test__/fixtures/quantisers.safetensors: what GGML's own quantiser makes of rows of many kinds.

    npm ci --prefix __test__/interop --ignore-scripts
    python3 -m venv .venv
    .venv/bin/pip install gguf==0.19.0 numpy==2.4.6 safetensors==0.8.0
    .venv/bin/python __test__/reference/quantisers.py [libggml-base.so]

The library is that of the llama.cpp inside node-llama-cpp 3.21.1, without an importance matrix. The file holds
    rows.KIND     f32 [1024]   the numbers; KINDS says what they are
    NAME.rmse     f64 [KINDS]  root mean square error of GGML's quantiser over that of the row, kinds in order of metadata
    NAME.packed   u8           GGML's blocks of rows.normal and rows.heavy_tailed, one after the other
and its metadata `kinds` is the JSON list of kinds. Errors are measured with `gguf.quants.dequantize`.
"""

import ctypes
import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from safetensors.numpy import save_file

HERE = Path(__file__).parent.parent
FIXTURE = HERE / "fixtures" / "quantisers.safetensors"
LIBRARY = HERE / "interop/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libggml-base.so"

FORMATS = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"]
COUNT = 1024


def kinds():
    random = np.random.default_rng(22)
    normal = random.standard_normal(COUNT)
    rows = {
        # Weights as models have them, and with the tails that outlier channels make.
        "normal": 0.02 * normal,
        "heavy_tailed": 0.02 * random.standard_t(3, COUNT),
        "shifted": 0.05 + 0.02 * normal,
        "positive": random.uniform(0.1, 1, COUNT),
        "outlier": np.where(np.arange(COUNT) == 300, 5, 0.02 * normal),
        "constant": np.full(COUNT, 0.37),
        "constant_negative": np.full(COUNT, -0.37),
        "zero": np.zeros(COUNT),
        "large": 3e4 * np.tanh(normal),
        # Scales below the least normal f16 number, and values below the least of all.
        "small": 1e-5 * normal,
        "tiny": 1e-30 * normal,
        "subnormal": 1e-40 * normal,
    }
    return {name: row.astype(np.float32) for name, row in rows.items()}


def quantise(library, name, row):
    kind = GGMLQuantizationType[name]
    elements, size = GGML_QUANT_SIZES[kind]
    packed = np.zeros(COUNT // elements * size, np.uint8)
    row = np.ascontiguousarray(row)
    written = library.ggml_quantize_chunk(
        ctypes.c_int(int(kind)),
        row.ctypes.data_as(ctypes.c_void_p),
        packed.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(0),
        ctypes.c_int64(1),
        ctypes.c_int64(COUNT),
        None,
    )
    assert written == len(packed), (name, written)
    return packed


def relative_error(name, row, packed):
    exact = row.astype(np.float64)
    error = dequantize(packed, GGMLQuantizationType[name]).ravel() - exact
    square = (exact**2).sum()
    return np.sqrt((error**2).sum() / square) if square > 0 else np.sqrt((error**2).sum())


def main():
    library = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else str(LIBRARY))
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    rows = kinds()
    tensors = {f"rows.{name}": row for name, row in rows.items()}
    for name in FORMATS:
        packed = {kind: quantise(library, name, row) for kind, row in rows.items()}
        errors = [relative_error(name, row, packed[kind]) for kind, row in rows.items()]
        tensors[f"{name}.rmse"] = np.array(errors)
        tensors[f"{name}.packed"] = np.concatenate([packed["normal"], packed["heavy_tailed"]])
        print(name, " ".join(f"{kind} {error:.3g}" for kind, error in zip(rows, errors)))
    save_file(tensors, FIXTURE, {"kinds": json.dumps(list(rows))})


main()
