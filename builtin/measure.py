"""Measures the default run with PEFT: the loss of every step on sample.txt, and a text before and after.

    python measure.py tiny-transformer.gguf [OUT.json]

The GGUF is read back (dequantised, q and k rows put in Hugging Face order), so the numbers are those of the file.
The run is the documented default: rank 8, alpha 16, all linear layers, AdamW, learning rate 1e-4 with 3 % warmup and
cosine, clip 1.0, batch 1, chunks of the model's context, three epochs.
"""

import json
import math
import sys
from pathlib import Path

import gguf
import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).parent
PROMPT = "Lysander\n"
NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj"}
NAMES |= {"attn_output": "self_attn.o_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
NAMES |= {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def read(path):
    """The model of a GGUF file as transformers has it, and its tokenizer."""
    file = gguf.GGUFReader(path)
    value = {name: field.contents() for name, field in file.fields.items()}
    heads, groups = value["llama.attention.head_count"], value["llama.attention.head_count_kv"]
    config = LlamaConfig(
        vocab_size=len(value["tokenizer.ggml.tokens"]),
        hidden_size=value["llama.embedding_length"],
        intermediate_size=value["llama.feed_forward_length"],
        num_hidden_layers=value["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=groups,
        head_dim=value["llama.attention.key_length"],
        max_position_embeddings=value["llama.context_length"],
        rms_norm_eps=value["llama.attention.layer_norm_rms_epsilon"],
        rope_theta=value["llama.rope.freq_base"],
        bos_token_id=value["tokenizer.ggml.bos_token_id"],
        eos_token_id=value["tokenizer.ggml.eos_token_id"],
        tie_word_embeddings=True,
    )
    weights = {}
    for tensor in file.tensors:
        data = torch.tensor(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        part = tensor.name.split(".")
        if part[0] == "blk":
            if part[2] in ("attn_q", "attn_k"):
                n = heads if part[2] == "attn_q" else groups
                data = data.unflatten(0, (n, -1, 2)).transpose(1, 2).flatten(0, 2)
            weights[f"model.layers.{part[1]}.{NAMES[part[2]]}.weight"] = data
        else:
            weights[{"token_embd": "model.embed_tokens", "output_norm": "model.norm"}[part[0]] + ".weight"] = data
    model = LlamaForCausalLM(config)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert missing in ([], ["lm_head.weight"]) and not unexpected, (missing, unexpected)
    model.tie_weights()
    vocab = {text: i for i, text in enumerate(value["tokenizer.ggml.tokens"])}
    merges = [tuple(m.split(" ")) for m in value["tokenizer.ggml.merges"]]
    tokens = Tokenizer(models.BPE(vocab, merges))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    return model, tokens


def write_text(model, tokens, prompt, count=120, temperature=0.8, seed=0):
    """`count` tokens after BOS and the prompt, sampled among the 40 most likely."""
    torch.manual_seed(seed)
    ids = torch.tensor([[0] + tokens.encode(prompt).ids])
    out = model.generate(
        input_ids=ids, max_new_tokens=count, do_sample=True, temperature=temperature, top_k=40, pad_token_id=1
    )
    return tokens.decode(out[0].tolist(), skip_special_tokens=True).replace("<|begin|>", "")


def finetune(model, ids, epochs=3, lr=1e-4, seed=0):
    """The losses of all steps, and the adapted model."""
    torch.manual_seed(seed)
    config = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(model, config)
    length = model.config.max_position_embeddings
    chunks = [ids[at : at + length] for at in range(0, len(ids) - 1, length)]
    trained = [p for p in model.parameters() if p.requires_grad]
    adam = torch.optim.AdamW(trained, lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    steps, losses = epochs * len(chunks), []
    warmup = int(0.03 * steps)
    for _ in range(epochs):
        for i in torch.randperm(len(chunks)).tolist():
            step = len(losses) + 1
            past = max(0.0, (step - warmup) / max(1, steps - warmup))
            rate = step / warmup if step < warmup else 0.5 * (1 + math.cos(math.pi * past))
            adam.param_groups[0]["lr"] = lr * rate
            row = torch.tensor([chunks[i]])
            loss = model(input_ids=row, labels=row).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            adam.step(), adam.zero_grad()
            losses.append(loss.item())
    return losses, model.eval()


def mean_loss(model, ids):
    """Nats a token of the sample, in chunks of the model's context."""
    length = model.config.max_position_embeddings
    total = 0.0
    with torch.no_grad():
        for at in range(0, len(ids) - 1, length):
            row = torch.tensor([ids[at : at + length]])
            total += model(input_ids=row, labels=row).loss.item() * (row.shape[1] - 1)
    return total / (len(ids) - 1 - (len(ids) - 1) // length)


def main(path, out=None):
    model, tokens = read(path)
    model.eval()
    ids = [0] + tokens.encode((HERE / "sample.txt").read_text(encoding="utf-8")).ids + [1]
    result = {
        "tokens": len(ids),
        "loss_before": mean_loss(model, ids),
        "text_before": write_text(model, tokens, PROMPT),
    }
    losses, model = finetune(model, ids)
    result |= {"loss_after": mean_loss(model, ids), "text_after": write_text(model, tokens, PROMPT)}
    tenth = max(1, len(losses) // 10)
    result |= {
        "steps": len(losses),
        "first_tenth": sum(losses[:tenth]) / tenth,
        "last_tenth": sum(losses[-tenth:]) / tenth,
    }
    print(json.dumps(result, indent=1))
    if out:
        Path(out).write_text(json.dumps(result | {"losses": losses}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
