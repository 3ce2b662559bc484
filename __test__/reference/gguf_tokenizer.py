"""Puts a byte-level BPE tokenizer.json into a GGUF file: tokenizer.ggml.{model, pre, tokens, token_type, merges, ids}.

Special tokens and their ids come from tokenizer_config.json where it exists, else from config.json.
"""

import json

import gguf

# pre-tokenizer name of llama.cpp <- a mark of the regular expression or step that tokenizer.json holds
LLAMA3 = r"\p{N}{1,3}"
QWEN2 = r"|\p{N}|"


def add(writer, hf_dir, config, pre=None):
    """Adds the tokenizer of `hf_dir` to a GGUFWriter. Raises ValueError for anything but byte-level BPE."""
    data = json.loads((hf_dir / "tokenizer.json").read_text(encoding="utf-8"))
    settings_file = hf_dir / "tokenizer_config.json"
    settings = json.loads(settings_file.read_text(encoding="utf-8")) if settings_file.exists() else {}
    if data["model"]["type"] != "BPE" or data["model"].get("byte_fallback"):
        raise ValueError(f"{hf_dir}/tokenizer.json: only byte-level BPE can be written, this is {data['model']['type']}")

    size = config["vocab_size"]
    tokens = [f"[PAD{i}]" for i in range(size)]
    kinds = [gguf.TokenType.UNUSED] * size
    for text, i in data["model"]["vocab"].items():
        tokens[i], kinds[i] = text, gguf.TokenType.NORMAL
    for token in data["added_tokens"]:
        tokens[token["id"]] = token["content"]
        kinds[token["id"]] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
    # tokenizers before 0.20 write "a b", later ones ["a", "b"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]]

    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre or pre_tokenizer(data))
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    for role in ("bos", "eos", "unk", "pad"):
        i = special_id(role, settings, config, tokens)
        if i is not None:
            getattr(writer, f"add_{role}_token_id")(i)
    writer.add_add_bos_token(starts_with_bos(data, settings, config))
    template = settings.get("chat_template")
    template_file = hf_dir / "chat_template.jinja"
    if template is None and template_file.exists():
        template = template_file.read_text(encoding="utf-8")
    if template:
        writer.add_chat_template(template)


def pre_tokenizer(data):
    """llama.cpp's name for the pre-tokenizer of a parsed tokenizer.json."""
    step = data.get("pre_tokenizer") or {}
    steps = step["pretokenizers"] if step.get("type") == "Sequence" else [step]
    text = json.dumps(steps).replace("\\\\", "\\")
    if any(s["type"] == "Digits" and s["individual_digits"] for s in steps):
        return "smollm"
    if LLAMA3 in text:
        return "llama-bpe"
    if QWEN2 in text:
        return "qwen2"
    if [s.get("type") for s in steps] == ["ByteLevel"]:
        return "gpt-2"
    raise ValueError(f"unknown pre-tokenizer {text[:200]}; name it with pre=")


def special_id(role, settings, config, tokens):
    text = settings.get(f"{role}_token")
    if isinstance(text, dict):
        text = text["content"]
    if text is not None:
        return tokens.index(text) if text in tokens else None
    i = config.get(f"{role}_token_id")
    return i[0] if isinstance(i, list) else i


def starts_with_bos(data, settings, config):
    """Does encoding put BOS first? The setting says so, else the template of the post-processor."""
    if settings.get("add_bos_token") is not None:
        return settings["add_bos_token"]
    step = data.get("post_processor") or {}
    steps = step["processors"] if step.get("type") == "Sequence" else [step]
    for s in steps:
        if s.get("type") == "TemplateProcessing" and s["single"]:
            return "SpecialToken" in s["single"][0]
    return False
