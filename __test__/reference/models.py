"""Small random models of every architecture, as a Hugging Face directory and as GGUF, and what PyTorch computes with them.

    python models.py [CASE ...]        writes ../fixtures/models/CASE/ and switches.md

Weights are f32; logits, losses and gradients are computed with the model in float64 (transformers itself drops to
float32 inside norms, softmax and rope angles), eager attention, one sample at a time, and stored as f32.
Made with torch 2.15.0, transformers 5.24.0, peft 0.21.2, safetensors 0.8.0, gguf 0.19.0.
"""

import json
import sys
import tempfile
import zlib
from pathlib import Path

import peft
import torch
import transformers
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForCausalLM

import gguf_export
from cases import CASES

HERE = Path(__file__).parent
OUT = HERE.parent / "fixtures" / "models"
LENGTHS = (37, 23)
RANK, ALPHA = 3, 5
TOLERANCE = 1e-4  # of the largest |logit|; a switched-off feature must move them by 100 times that


def make(name, case):
    """Writes the directory of one case and returns its rows of switches.md."""
    rng = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    write_config(folder, case.config)
    save_weights(folder, rng)
    old = {"input_ids": draw_ids(rng, LENGTHS, case.config["vocab_size"])}
    model = load(folder)
    old["logits"] = [logits_of(model, ids) for ids in old["input_ids"]]
    check_spelling(folder, case, old)
    adapter = draw_adapter(model, rng)

    facts = {"config_spelling": "transformers 5" if case.v5 else "transformers 4"}
    facts["gguf"] = {"file": "model.gguf", "golden": "golden_gguf" if case.lost else "golden", "lost": sorted(case.lost)}
    golden(folder, "golden", load(folder), old["input_ids"], adapter, facts)
    if case.short:
        ids = [ids[:n] for ids, n in zip(old["input_ids"], case.short)]
        golden(folder, "golden_short", load(folder), ids, adapter, facts)
    if case.lost:
        changed = load(folder, case.config | case.lost)
        golden(folder, "golden_gguf", changed, old["input_ids"], adapter, facts | {"changed": case.lost})
    gguf_export.export(folder, folder / "model.gguf", "F32", tokenizer=False)
    return [switch_off(folder, name, case, feature, switch, old) for feature, switch in case.switches.items()]


def write_config(folder, config, file="config.json"):
    (folder / file).write_text(json.dumps(config, indent=2) + "\n")


def save_weights(folder, rng):
    """Matrices of deviation 0.2, embeddings 0.5 (gemma scales them, 0.2), biases 0.3, norms around what means 1."""
    config = AutoConfig.from_pretrained(folder)
    gemma = config.model_type.startswith("gemma")
    model = AutoModelForCausalLM.from_config(config)
    weights = {}
    for key, p in model.named_parameters():  # a tied head is not among them, as in real checkpoints
        noise = torch.randn(p.shape, generator=rng)
        if key.endswith("norm.weight"):
            weights[key] = 0.2 * noise + (0 if gemma else 1)
        elif key.endswith("bias"):
            weights[key] = 0.3 * noise
        else:
            weights[key] = (0.5 if "embed" in key and not gemma else 0.2) * noise
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def load(folder, config=None):
    """The model in float64 with eager attention; `config` stands in for the directory's config.json."""
    with tempfile.TemporaryDirectory() as other:
        if config:
            write_config(Path(other), config)
        model, info = AutoModelForCausalLM.from_pretrained(
            folder,
            config=AutoConfig.from_pretrained(other if config else folder),
            attn_implementation="eager",
            dtype=torch.float64,
            output_loading_info=True,
        )
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    return model.double().eval()


def draw_ids(rng, lengths, vocab):
    return [torch.randint(3, vocab, (n,), generator=rng).tolist() for n in lengths]


def logits_of(model, ids):
    """[time, vocab], in float64"""
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double()


def check_spelling(folder, case, old):
    """The spelling of transformers 5 must mean the same. It is committed as config_v5.json, or as config.json itself."""
    config = v5_config(folder)
    model = load(folder, config)
    for ids, logits in zip(old["input_ids"], old["logits"]):
        assert torch.equal(logits_of(model, ids), logits), f"{folder}: the two spellings differ"
    write_config(folder, config, "config.json" if case.v5 else "config_v5.json")


def v5_config(folder):
    """config.json as transformers 5 saves it, without the older keys that it drags along."""
    with tempfile.TemporaryDirectory() as other:
        AutoConfig.from_pretrained(folder).save_pretrained(other)
        config = json.loads((Path(other) / "config.json").read_text())
    for key in ("partial_rotary_factor", "sliding_window_pattern", "_sliding_window_pattern", "cache_implementation"):
        config.pop(key, None)
    config["rope_parameters"].pop("type", None)
    assert not config.keys() & {"rope_theta", "rope_scaling", "rope_local_base_freq", "torch_dtype"}
    return config


def draw_adapter(model, rng):
    """{PEFT key: tensor} for all linear layers but the head. B is not zero: else A has no gradient."""
    weights = {}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            key = f"base_model.model.{name}"
            weights[f"{key}.lora_A.weight"] = 0.3 * torch.randn(RANK, module.in_features, generator=rng)
            weights[f"{key}.lora_B.weight"] = 0.3 * torch.randn(module.out_features, RANK, generator=rng)
    return weights


def with_adapter(model, adapter):
    """The model with LoRA layers holding `adapter`, in float64, A and B asking for gradients."""
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets(adapter), task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, config)
    result = peft.set_peft_model_state_dict(model, adapter)
    assert not result.unexpected_keys and not [k for k in result.missing_keys if "lora_" in k]
    return model.double()


def targets(adapter):
    return sorted({key.split(".")[-3] for key in adapter})


def trained(model):
    """{PEFT key: parameter}"""
    return {k.replace(".default", ""): p for k, p in model.named_parameters() if p.requires_grad}


def losses_of(logits, ids):
    """Per-token losses of tokens 2..., [time - 1]"""
    return cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="none")


def golden(folder, stem, model, samples, adapter, facts):
    """Writes STEM.safetensors and STEM.json: base and adapter logits, losses, gradients of the mean loss."""
    out = dict(adapter)
    base, tuned = [], []
    for i, ids in enumerate(samples):
        out[f"logits.{i}"] = logits_of(model, ids)
        base.append(losses_of(out[f"logits.{i}"], ids))
    model = with_adapter(model, adapter)
    for i, ids in enumerate(samples):
        logits = model(torch.tensor([ids])).logits[0].double()
        out[f"adapter.logits.{i}"] = logits.detach()
        tuned.append(losses_of(logits, ids))
    for i in range(len(samples)):
        out[f"losses.{i}"], out[f"adapter.losses.{i}"] = base[i], tuned[i].detach()
    loss = torch.cat(tuned).mean()
    loss.backward()
    grads = {key: p.grad for key, p in trained(model).items()}
    assert grads.keys() == adapter.keys()
    out |= {f"grad.{key}": g for key, g in grads.items()}
    save_file({k: v.float().contiguous() for k, v in out.items()}, folder / f"{stem}.safetensors")
    facts = facts | {
        "input_ids": samples,
        "loss": torch.cat(base).mean().item(),
        "adapter_loss": loss.item(),
        "grad_norm": torch.stack([g.norm() for g in grads.values()]).norm().item(),
        "rank": RANK,
        "alpha": ALPHA,
        "targets": targets(adapter),
        "made_with": f"torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}, peft {peft.__version__}",
    }
    lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in facts.items())
    (folder / f"{stem}.json").write_text(f"{{\n{lines}\n}}\n")


def switch_off(folder, name, case, feature, switch, old):
    """One row of the table: how far the logits move, in units of the tolerance, when the feature is missing."""
    model = load(folder, case.config | switch.config)
    switch.model(model)
    moved = max((logits_of(model, ids) - y).abs().max().item() for ids, y in zip(old["input_ids"], old["logits"]))
    largest = max(y.abs().max().item() for y in old["logits"])
    times = moved / largest / TOLERANCE
    assert times > 100 or not switch.required, f"{name}: without {feature} the logits move by {times:.1f} tolerances only"
    return f"| {name} | {feature}{'' if switch.required else ' (not required)'} | {times:.0f} |"


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    names = sys.argv[1:] or list(CASES)
    rows = [row for name in names for row in make(name, CASES[name])]
    table = "\n".join(["| model | without | logits move by, in tolerances of 1e-4 of the largest |", "|---|---|---|", *rows])
    print(table)
    if not sys.argv[1:]:
        (HERE / "switches.md").write_text(f"# What the goldens notice\n\nMade by `models.py`.\n\n{table}\n")
