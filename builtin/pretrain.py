"""Makes tiny-transformer.gguf: gathers the text, trains the tokenizer, pretrains on one GPU, quantises, writes.

    python pretrain.py all WORK_DIR          or one of: text, tokenizer, train, gguf

`train` takes about five minutes on a current GPU and writes WORK_DIR/hf (a Hugging Face directory with f32 weights
that already sit near their quantised values) and WORK_DIR/train.json; the other steps need no GPU.
"""

import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import model as network

HERE = Path(__file__).parent
BOS, EOS = "<|begin|>", "<|end|>"  # ids 0 and 1
RUN = {
    "epochs": 40,
    "batch": 128,
    "matrix_lr": 0.008,
    "vector_lr": 0.004,
    "weight_decay": 0.1,
    "dropout": 0.12,
    "warmup": 100,
    "seed": 1,
}


def tokenizer(work):
    """Byte-level BPE with GPT-2's pre-tokenizer (llama.cpp: "gpt-2"), trained on the training text alone."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=network.CONFIG["vocab_size"],
        special_tokens=[BOS, EOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator((d for _, d in documents(work / "text")), trainer)
    bpe.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, 0)])
    hf = work / "hf"
    hf.mkdir(exist_ok=True)
    bpe.save(str(hf / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "add_bos_token": True,
        "model_max_length": network.CONFIG["max_position_embeddings"],
    }
    (hf / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))
    (hf / "config.json").write_text(json.dumps(network.CONFIG, indent=1))
    for folder in ("text", "heldout"):
        for name, ids in encoded(bpe, work / folder).items():
            np.save(work / folder / f"{name}.npy", ids)
            print(f"{folder:8} {name:12} {len(ids):8} tokens")


def documents(folder):
    for file in sorted(folder.glob("*.txt")):
        for document in file.read_text(encoding="utf-8").split("\f"):
            yield file.stem, document


def encoded(bpe, folder):
    """name -> u16 ids of its documents in a row, each between BOS and EOS."""
    ids = {}
    for name, document in documents(folder):
        ids.setdefault(name, []).extend(bpe.encode(document).ids + [1])
    return {name: np.array(x, np.uint16) for name, x in ids.items()}


def starts(ids, bpe):
    """Positions where a sentence or paragraph begins, so that a window reads like the start of a text."""
    texts = [bpe.id_to_token(i) or "" for i in range(network.CONFIG["vocab_size"])]
    ends = np.array([t.endswith(("Ċ", ".", "!", "?")) or t == BOS for t in texts])
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
    from tokenizers import Tokenizer

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


def next_token_loss(norm, x, table, y):
    logits = F.linear(norm(x).bfloat16(), table.bfloat16()).float()
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


class Muon:
    """Momentum whose step is the nearest orthogonal matrix, scaled to AdamW's usual size: 0.2·sqrt(max(rows, cols)).

    Equal shapes are stepped together. Sources: Jordan et al. 2024 ("Muon"; the quintic iteration's coefficients);
    Liu et al. 2025, arXiv:2502.16982, section 2.2 (scale and weight decay).
    """

    def __init__(self, matrices, weight_decay, momentum=0.95):
        self.groups = {}
        for p in matrices:
            self.groups.setdefault(p.shape, []).append(p)
        self.moments = {shape: torch.zeros_like(torch.stack(list(group))) for shape, group in self.groups.items()}
        self.weight_decay, self.momentum = weight_decay, momentum

    @torch.no_grad()
    def step(self, lr):
        for shape, group in self.groups.items():
            grad, moment = torch.stack([p.grad for p in group]), self.moments[shape]
            moment.lerp_(grad, 1 - self.momentum)
            x = grad.lerp(moment, self.momentum).bfloat16()  # Nesterov
            x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
            for _ in range(5):
                gram = x @ x.mT
                x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
            update = (x.float() * (-lr * 0.2 * max(shape) ** 0.5)).unbind()
            torch._foreach_mul_(group, 1 - lr * self.weight_decay)
            torch._foreach_add_(group, update)
