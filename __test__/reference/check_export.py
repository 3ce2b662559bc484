"""Compares gguf_export.py with llama.cpp's own converter on every fixture: keys, tensor names, shapes and bytes.

    pip download --no-deps --no-binary llama-cpp-python llama-cpp-python && tar xf llama_cpp_python-*.tar.gz
    python check_export.py llama_cpp_python-*/vendor/llama.cpp

Made with llama-cpp-python 0.3.36. Prints the differences and exits with 1 if there is one.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

MODELS = Path(__file__).parent.parent / "fixtures" / "models"
# The converter derives these from a model card and a parameter count; they do not change what is computed.
NAMING = ("general.name", "general.size_label", "general.finetune", "general.basename", "general.quantized_by")


def convert(folder, out):
    """Runs the official converter on a copy of `folder`, with the vocabulary size in place of a tokenizer."""
    import gguf
    from conversion import get_model_class

    with tempfile.TemporaryDirectory() as copy:
        copy = Path(copy)
        for file in ("config.json", "model.safetensors"):
            shutil.copy(folder / file, copy)
        config = json.loads((copy / "config.json").read_text())
        # gemma3 cuts the embedding to the size of the vocabulary that it finds here
        vocab = {"model": {"vocab": dict.fromkeys(map(str, range(config["vocab_size"])))}, "added_tokens": []}
        (copy / "tokenizer.json").write_text(json.dumps(vocab))
        model_class = get_model_class(config["architectures"][0])
        model_class.set_vocab = size_only
        model_class(copy, gguf.LlamaFileType.ALL_F32, out, eager=True).write()


def size_only(model):
    model.gguf_writer.add_tokenizer_model("none")
    model.gguf_writer.add_vocab_size(model.hparams["vocab_size"])


def read(file):
    """({key: value}, {tensor: array}) of a GGUF file."""
    import gguf

    reader = gguf.GGUFReader(file)
    keys = {k: f.contents() for k, f in reader.fields.items() if not k.startswith("GGUF.") and k not in NAMING}
    return keys, {t.name: np.array(t.data) for t in reader.tensors}


def same(name, a, b):
    # the converter computes the rope factors in f32, gguf_export.py in f64
    return np.allclose(a, b, rtol=1e-6, atol=0) if name == "rope_freqs.weight" else np.array_equal(a, b)


def differences(ours, theirs):
    for kind, mine, other in (("key", ours[0], theirs[0]), ("tensor", ours[1], theirs[1])):
        for name in sorted(mine.keys() | other.keys()):
            a, b = mine.get(name), other.get(name)
            if a is None or b is None:
                yield f"{kind} {name}: {'only theirs' if a is None else 'only ours'}" + (f" = {b if a is None else a}" if kind == "key" else "")
            elif kind == "key" and a != b:
                yield f"key {name}: {a} here, {b} there"
            elif kind == "tensor" and (a.shape != b.shape or not same(name, a, b)):
                yield f"tensor {name}: {a.shape} and {b.shape}, largest difference {abs(a - b).max() if a.shape == b.shape else '-'}"


if __name__ == "__main__":
    sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]) / "gguf-py")]
    found = 0
    for folder in sorted(p for p in MODELS.iterdir() if (p / "model.gguf").exists()):
        with tempfile.TemporaryDirectory() as out:
            convert(folder, Path(out) / "model.gguf")
            rows = list(differences(read(folder / "model.gguf"), read(Path(out) / "model.gguf")))
        print(f"{folder.name}: {'equal' if not rows else ''}", *rows, sep="\n  " if rows else "")
        found += len(rows)
    sys.exit(found > 0)
