"""Unpacks what `merge` packed with PyPI gguf and compares every value with ours, bit for bit.

    python check_gguf.py OUT        OUT: what `cargo run --example interop -- OUT` wrote
"""

import sys
from pathlib import Path

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.numpy import load_file

if __name__ == "__main__":
    folder = Path(sys.argv[1]) / "packed"
    ours = load_file(folder / "merged.safetensors")
    counts = {}
    for tensor in GGUFReader(folder / "merged.gguf").tensors:
        theirs = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        values = ours.pop(tensor.name)
        same = theirs.shape == values.shape and np.array_equal(theirs.view(np.uint32), values.view(np.uint32))
        if not same:
            sys.exit(f"DIFFER packed, {tensor.name} in {tensor.tensor_type.name}")
        counts[tensor.tensor_type.name] = counts.get(tensor.tensor_type.name, 0) + 1
    if ours:
        sys.exit(f"DIFFER packed, not in the file: {sorted(ours)}")
    print("ok     packed, gguf unpacks the same bits:", ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
