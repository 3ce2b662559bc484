"""Small tokenizers, one per family, and what Hugging Face `tokenizers` makes of the torture lines with them.

    python tokenizer_families.py [FAMILY ...]

Writes ../fixtures/tokenizers/torture.json and FAMILY/{tokenizer.json, tokenizer_config.json, model.gguf, expected.json}.
Normaliser, pre-tokenizer, post-processor and decoder are those of the published tokenizer.json files; only vocabulary and
merges are small, trained on the torture lines and Debian's GPL-3. The GGUF holds what llama.cpp's converter writes.
"""

import json
import shutil
import sys
from pathlib import Path

import gguf
import torture
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import sentencepiece_vocabulary

OUT = Path(__file__).parent / "../fixtures/tokenizers"
LICENCE = Path("/usr/share/common-licenses/GPL-3")

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+{end}|" + r"[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*{end}"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = CASED.replace("{end}", "") + r"|\p{N}" + REST
GPT4O = CASED.replace("{end}", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?") + r"|\p{N}{1,3}" + REST


def split(pattern):
    cut = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def words():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


# family: pre (llama.cpp's name), steps, normaliser, ignore_merges, special tokens, other added tokens, bos, eos, starts with BOS
BYTE_LEVEL = {
    "gpt2": ("gpt-2", words, None, False, ["<|endoftext|>"], [], "<|endoftext|>", "<|endoftext|>", False),
    "smollm": ("smollm", lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words()]), None, False,
               ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], [], "<|im_start|>", "<|im_end|>", False),
    "llama3": ("llama-bpe", lambda: split(LLAMA3), None, True,
               ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], [], "<|begin_of_text|>", "<|eot_id|>", True),
    "qwen2": ("qwen2", lambda: split(QWEN2), normalizers.NFC, False,
              ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], ["<think>", "</think>"], None, "<|im_end|>", False),
    "tekken": ("tekken", lambda: split(TEKKEN), None, True, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], [], "<s>", "</s>", True),
    "phi4mini": ("gpt-4o", lambda: split(GPT4O), None, False, ["<|endoftext|>", "<|end|>", "<|user|>", "<|assistant|>"], [], "<|endoftext|>", "<|endoftext|>", False),
}  # fmt: skip
# A word no merge leads to: only tokenizers that look words up whole find it.
WHOLE = "ĠViktor"


def corpus():
    return torture.lines() + LICENCE.read_text(encoding="utf-8")[:20000].split("\n\n")


def byte_level(name):
    pre, steps, normalizer, ignore_merges, special, added, bos, eos, starts = BYTE_LEVEL[name]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = steps()
    trainer = trainers.BpeTrainer(vocab_size=620, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    trained = json.loads(tokenizer.to_str())["model"]
    vocab = dict(trained["vocab"], **{WHOLE: len(trained["vocab"])})
    tokenizer.model = models.BPE(vocab=vocab, merges=[tuple(m) for m in trained["merges"]], ignore_merges=ignore_merges)
    tokenizer.normalizer = normalizer() if normalizer else None
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in added])
    post = processors.ByteLevel(trim_offsets=False)
    if starts:
        template = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))])
        post = processors.Sequence([post, template])
    tokenizer.post_processor = post

    size = tokenizer.get_vocab_size() + 5
    tokens, kinds = [f"[PAD{i}]" for i in range(size)], [gguf.TokenType.UNUSED] * size
    for text, i in vocab.items():
        tokens[i], kinds[i] = text, gguf.TokenType.NORMAL
    for i, token in tokenizer.get_added_tokens_decoder().items():
        tokens[i], kinds[i] = token.content, gguf.TokenType.CONTROL if token.special else gguf.TokenType.USER_DEFINED
    writer = gguf_writer(name, "qwen2" if name == "qwen2" else "phi3" if name == "phi4mini" else "llama", "gpt2", pre)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(m) for m in trained["merges"]])
    for role, text in (("bos", bos), ("eos", eos)):
        if text:
            getattr(writer, f"add_{role}_token_id")(tokenizer.token_to_id(text))
    if not ignore_merges:  # llama.cpp's default for the others
        writer.add_add_bos_token(starts)
    finish(name, tokenizer, writer, {"bos_token": bos, "eos_token": eos})


def sentencepiece(name):
    family = sentencepiece_vocabulary.family(name, corpus())
    finish(name, family.tokenizer(), family.write(gguf_writer(name, family.architecture, "llama", "default")), family.settings)


def gguf_writer(name, architecture, model, pre):
    (OUT / name).mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(OUT / name / "model.gguf", architecture)
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    return writer


def finish(name, tokenizer, writer, settings):
    writer.add_chat_template("{{ bos_token }}{{ messages }}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    settings = dict(settings, chat_template="{{ bos_token }}{{ messages }}")
    lines = torture.lines()
    ids = [tokenizer.encode(line, add_special_tokens=False).ids for line in lines]
    decoded = [tokenizer.decode(row, skip_special_tokens=False) for row in ids]
    expected = {
        "vocab_size": max(tokenizer.get_vocab().values()) + 1,
        "document": tokenizer.encode(lines[0]).ids,
        "decoded": {str(i): text for i, (text, line) in enumerate(zip(decoded, lines)) if text != line},
        "ids": ids,
    }
    dump(OUT / name / "tokenizer.json", json.loads(tokenizer.to_str()))
    dump(OUT / name / "tokenizer_config.json", settings)
    dump(OUT / name / "expected.json", expected)
    print(f"{name}: {expected['vocab_size']} tokens, {sum(map(len, ids))} ids, {len(expected['decoded'])} lines come back changed")


def dump(path, data):
    path.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    names = sys.argv[1:] or [*BYTE_LEVEL, *sentencepiece_vocabulary.FAMILIES]
    if not sys.argv[1:]:
        shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True, exist_ok=True)
    dump(OUT / "torture.json", torture.lines())
    for name in names:
        byte_level(name) if name in BYTE_LEVEL else sentencepiece(name)
