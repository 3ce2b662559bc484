"""Trains the tokenizer of tiny-transformer and encodes the texts with it."""

import json

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from model import CONFIG

BOS, EOS = "<|begin|>", "<|end|>"  # ids 0 and 1


def main(work):
    """Byte-level BPE with GPT-2's pre-tokenizer (llama.cpp: "gpt-2"), trained on the training text alone."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG["vocab_size"],
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
        "model_max_length": CONFIG["max_position_embeddings"],
    }
    (hf / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))
    (hf / "config.json").write_text(json.dumps(CONFIG, indent=1))
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
