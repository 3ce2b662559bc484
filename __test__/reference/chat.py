"""What TRL and transformers make of conversations: token ids, learned tokens, and ten steps of SFTTrainer.

    python chat.py [tokens] [steps]        writes ../fixtures/chat/ (after tokenizer_families.py)

Token ids and masks come from SFTTrainer's own preparation of its dataset, for the templates TRL knows (it swaps in its training
variant where assistants alone are learned), and from transformers' apply_chat_template(return_assistant_tokens_mask) with
marks set here by hand for our own templates, for those written for these tests, and for Qwen3's as it is published. Each marked template must render every
conversation like the unmarked one. Made with torch 2.15.0, transformers 5.24.0, peft 0.21.2, trl 1.16.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
import trl
from datasets import Dataset
from jinja2.exceptions import TemplateError
from peft import LoraConfig, get_peft_model
from torch.utils.data import SequentialSampler
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from chat_conversations import CONVERSATIONS, PAIRS, STEPS_DATA, TEXTS

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "fixtures"
OUT = FIXTURES / "chat"
OURS = HERE.parents[1] / "src/data/chat/templates"
# Written for these tests: they render what the templates of Llama 3 and Gemma do, whose licences are not ours to pass on.
FORMS = OUT / "templates"
TRL = Path(trl.__file__).parent / "chat_templates"


def wrap(text, first, last, role=None):
    """The template with marks from `first` to `last`; only for messages of `role` where the lines serve all of them."""
    start = text.index(first)
    end = text.index(last, start) + len(last)
    body = text[start:end]
    marked = "{%- generation %}" + body + "{%- endgeneration %}"
    if role:
        marked = f"{{%- if message.role == '{role}' %}}{marked}{{%- else %}}{body}{{%- endif %}}"
    return text[:start] + marked + text[end:]


def qwen3_marked(text):
    """The published template with the header of an assistant's turn moved in front of its three forms."""
    header = "'<|im_start|>' + message.role + '\\n"
    start = text.index("{%- if loop.index0 > ns.last_query_index %}")
    end = text.index("{%- if message.tool_calls %}", start)
    forms = text[start:end]
    assert forms.count(header) == 3, forms.count(header)
    forms = forms.replace(header + "' + ", "").replace(header, "'")
    text = text[:start] + "{{- '<|im_start|>' + message.role + '\\n' }}" + forms + text[end:]
    return wrap(text, "{%- if loop.index0 > ns.last_query_index %}", "{{- '<|im_end|>\\n' }}")


END = "{{- '<|im_end|>\\n' }}"
PLAIN_BODY = "' + message.content | trim }}\n    {{- eos_token if message.role == 'assistant' }}"
# name: (family, file, marked variant by hand or None for TRL's own)
TEMPLATES = {
    "gemma": ("gemma2", FORMS / "gemma.jinja", lambda t: wrap(t, "{{- message.content | trim", "\\n' }}", "assistant")),
    "gemma3": ("gemma3", FORMS / "gemma3.jinja", lambda t: wrap(t, "{%- if message.content is string %}", "{{- '<end_of_turn>\\n' }}", "assistant")),
    "llama3": ("llama3", FORMS / "llama3.jinja", lambda t: wrap(t, "{{- message.content | trim", "}}", "assistant")),
    "phi3": ("phi3", TRL / "phi3.jinja", None),
    "qwen2_5": ("qwen2", TRL / "qwen2_5_training.jinja", lambda text: text),
    "qwen3_training": ("qwen2", TRL / "qwen3_training.jinja", lambda text: text),
    "qwen3": ("qwen2", TRL / "qwen3.jinja", qwen3_marked),
    "ours/chatml": ("smollm", OURS / "chatml.jinja", lambda t: wrap(t, "{%- if message.content %}", END, "assistant")),
    "ours/llama3": ("llama3", OURS / "llama3.jinja", lambda t: wrap(t, "{%- if message.tool_calls %}", "{{- '<|eot_id|>' }}", "assistant")),
    "ours/mistral": ("tekken", OURS / "mistral.jinja", lambda t: wrap(t, "{{- ' ' + message.content", "eos_token }}")),
    "ours/qwen3": ("qwen2", OURS / "qwen3.jinja", lambda t: wrap(t, "{%- if loop.index0 > state.question", END)),
    "ours/plain": ("gpt2", OURS / "plain.jinja", lambda t: wrap(t.replace(":\\n' + message.content", ":\\n' }}{{- message.content"), "{{- message.content", "'assistant' }}", "assistant")),
    "ours/gemma": ("gemma2", OURS / "gemma.jinja", lambda t: wrap(t, "{{- message.content | trim + '<end_of_turn>\\n' }}", "\\n' }}", "assistant")),
    "ours/phi3": ("phi3", OURS / "phi3.jinja", lambda t: phi3_marked(t)),
}  # fmt: skip


def phi3_marked(text):
    text = text.replace("|>\\n' + message.content", "|>\\n' }}{{- message.content")
    text = wrap(text, "{{- message.content", "<|end|>\\n' }}", "assistant")
    return text.replace("{{- eos_token }}", "{%- if messages[-1].role == 'assistant' %}{%- generation %}{{- eos_token }}{%- endgeneration %}{%- else %}{{- eos_token }}{%- endif %}")  # fmt: skip


def tokenizer(family, template):
    folder = FIXTURES / "tokenizers" / family
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    tokens = {key: settings[key] for key in ("bos_token", "eos_token") if settings.get(key)}
    made = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **tokens)
    made.chat_template = template
    made.pad_token = made.eos_token
    return made


def trainer(processing, columns, **config):
    """An SFTTrainer that prepares datasets with these columns."""
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=len(processing) + 8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
    )
    data = Dataset.from_list([columns])
    with tempfile.TemporaryDirectory() as folder:
        args = SFTConfig(output_dir=folder, max_length=None, report_to=[], use_cpu=True, bf16=False, **config)
        return SFTTrainer(model=model, args=args, train_dataset=data, processing_class=processing)


def prepared(sft, record):
    """[ids, learned] of one record as SFTTrainer prepares it; `learned` as a text of 0 and 1."""
    columns = dict(record)
    if "tools" in columns:
        columns["tools"] = json.dumps(columns["tools"])
    row = sft._prepare_dataset(Dataset.from_list([columns]), sft.processing_class, sft.args, False, None, "train")[0]
    return [row["input_ids"], "".join("01"[label != -100] for label in row["labels"])]


def by_marks(processing, marked, record):
    kwargs = {"tools": record.get("tools"), "return_dict": True, **record.get("chat_template_kwargs", {})}
    plain = processing.apply_chat_template(record["messages"], **kwargs)["input_ids"]
    out = processing.apply_chat_template(record["messages"], chat_template=marked, return_assistant_tokens_mask=True, **kwargs)
    assert out["input_ids"] == plain, (record, processing.decode(out["input_ids"]), processing.decode(plain))
    if 1 not in out["assistant_masks"]:
        return None
    return [plain, "".join(map(str, out["assistant_masks"]))]


def refused(work, *args):
    try:
        return work(*args)
    except (TemplateError, TypeError, RuntimeError) as cause:
        assert "RuntimeError" not in type(cause).__name__ or "no assistant" in str(cause), cause
        return None


def tokens():
    cases = {}
    user = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    pair = {"prompt": user["messages"][:1], "completion": user["messages"][1:]}
    (OUT / "templates").mkdir(parents=True, exist_ok=True)
    for name, (family, file, mark) in TEMPLATES.items():
        text = file.read_text(encoding="utf-8")
        if file.parent == TRL:
            (OUT / "templates" / f"{name}.jinja").write_text(text, encoding="utf-8")
        processing = tokenizer(family, text)
        case = {"family": family, "assistant": [], "completions": []}
        if mark is None:
            sft = trainer(processing, user, assistant_only_loss=True)
            case["assistant"] = [refused(prepared, sft, record) for record in CONVERSATIONS]
        else:
            case["assistant"] = [refused(by_marks, processing, mark(text), record) for record in CONVERSATIONS]
        sft = trainer(tokenizer(family, text), pair)
        case["completions"] = [refused(prepared, sft, record) for record in PAIRS]
        cases[name] = case
        print(name, *[sum(row is not None for row in case[mode]) for mode in ("assistant", "completions")])
    plain = {}
    for family in ("gpt2", "smollm", "llama3", "qwen2", "gemma2", "llama2"):
        processing = tokenizer(family, None)
        rows = []
        for record in TEXTS:
            sft = trainer(processing, record)
            rows.append(prepared(sft, record))
        plain[family] = rows
    write("tokens.json", {"conversations": CONVERSATIONS, "pairs": PAIRS, "texts": TEXTS, "templates": cases, "plain": plain})


# name: (family, template, config)
SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
         "max_position_embeddings": 512, "tie_word_embeddings": True, "rms_norm_eps": 1e-6}  # fmt: skip
MODELS = {
    "chatml": ("smollm", OURS / "chatml.jinja", {"model_type": "llama"}),
    "llama3": ("llama3", FORMS / "llama3.jinja", {"model_type": "llama"}),
    "gemma": ("gemma2", FORMS / "gemma.jinja", {"model_type": "gemma2", "query_pre_attn_scalar": 8}),
    "qwen3": ("qwen2", TRL / "qwen3.jinja", {"model_type": "qwen3"}),
}


class InOrder(SFTTrainer):
    def _get_train_sampler(self, *args, **kwargs):
        return SequentialSampler(self.train_dataset)


def steps():
    expected = {}
    for name, (family, file, config) in MODELS.items():
        text = file.read_text(encoding="utf-8")
        processing = tokenizer(family, text)
        folder = OUT / "models" / name
        folder.mkdir(parents=True, exist_ok=True)
        config = SMALL | config | {"vocab_size": (len(processing) + 15) // 8 * 8}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        torch.manual_seed(len(name))
        base = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
        gemma = config["model_type"].startswith("gemma")
        with torch.no_grad():
            for key, p in base.named_parameters():
                p.normal_(0.0, 0.2).add_(1.0 if key.endswith("norm.weight") and not gemma else 0.0)
        base.save_pretrained(folder, save_original_format=True)
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        (folder / "generation_config.json").unlink(missing_ok=True)
        runs = {}
        for mode in ("assistant", "completions"):
            # A completion is learned with the template as it is; assistants alone need marks.
            marked = None if name == "qwen3" else TEMPLATES[template_name(name)][2]
            template = marked(text) if marked and mode == "assistant" else text
            runs[mode] = losses(folder, tokenizer(family, template), mode)
            print(name, mode, [round(x, 3) for x in runs[mode]])
        expected[name] = {"family": family, "template": template_name(name), **runs}
    write("steps.json", {"data": STEPS_DATA, "models": expected})


def template_name(name):
    return "ours/chatml" if name == "chatml" else name


def losses(folder, processing, mode):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    linear = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=linear, task_type="CAUSAL_LM"))
    if mode == "assistant":
        # A name, not the place where the script ran.
        model.peft_config["default"].base_model_name_or_path = folder.name
        model.save_pretrained(folder / "adapter")
        (folder / "adapter" / "README.md").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as out:
        args = SFTConfig(
            output_dir=out, max_length=None, report_to=[], use_cpu=True, bf16=False, assistant_only_loss=mode == "assistant",
            per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=10, learning_rate=2e-2, lr_scheduler_type="constant",
            warmup_steps=0, optim="adamw_torch", weight_decay=0.0, max_grad_norm=1.0, logging_steps=1, save_strategy="no",
            gradient_checkpointing=False,
        )  # fmt: skip
        run = InOrder(model=model, args=args, train_dataset=Dataset.from_list(STEPS_DATA[mode]), processing_class=processing)
        run.train()
        return [row["loss"] for row in run.state.log_history if "loss" in row]


def write(name, data):
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / name).write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    import datasets

    datasets.disable_progress_bars()
    for part in sys.argv[1:] or ["tokens", "steps"]:
        {"tokens": tokens, "steps": steps}[part]()
