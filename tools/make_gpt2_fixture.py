#!/usr/bin/env python3
"""Writes tests/parity/gpt2_tiny.safetensors: a small GPT-2 in plain PyTorch and all that it computes.

    .venv/bin/python tools/make_gpt2_fixture.py [FILE]

The model is written from the paper's and Hugging Face's description (Conv1D weights [in, out],
tanh GELU, pre-norm, causal attention) with nothing but torch operations, so that it shares no code
with chimera/model. In the file, all fp64: `weight.NAME` (biases and norms away from 0 and 1, so that
each one matters), `tokens`, `targets`; and for each head KIND, untied and tied, `KIND.logits`,
`KIND.loss` (mean per token) and `KIND.gradient.NAME`. The metadata gives the model's sizes.
"""

import json
import math
import struct
import sys
from pathlib import Path

import torch

LAYERS, HIDDEN, HEADS, SEQUENCE, VOCABULARY, SEQUENCES = 2, 16, 2, 8, 29, 3


def make_weights(generator):
    def draw(*shape, around=0.0, deviation=0.2):
        return around + deviation * torch.randn(*shape, generator=generator, dtype=torch.float64)

    weights = {"wte.weight": draw(VOCABULARY, HIDDEN), "wpe.weight": draw(SEQUENCE, HIDDEN)}

    def norm(name):
        weights[name + ".weight"] = draw(HIDDEN, around=1.0)
        weights[name + ".bias"] = draw(HIDDEN)

    def linear(name, inputs, outputs):
        weights[name + ".weight"] = draw(inputs, outputs)
        weights[name + ".bias"] = draw(outputs)

    for layer in range(LAYERS):
        norm(f"h.{layer}.ln_1")
        linear(f"h.{layer}.attn.c_attn", HIDDEN, 3 * HIDDEN)
        linear(f"h.{layer}.attn.c_proj", HIDDEN, HIDDEN)
        norm(f"h.{layer}.ln_2")
        linear(f"h.{layer}.mlp.c_fc", HIDDEN, 4 * HIDDEN)
        linear(f"h.{layer}.mlp.c_proj", 4 * HIDDEN, HIDDEN)
    norm("ln_f")
    weights["lm_head.weight"] = draw(VOCABULARY, HIDDEN)
    return weights


def layer_norm(x, w, name):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * w[name + ".weight"] + w[name + ".bias"]


def linear(x, w, name):
    return x @ w[name + ".weight"] + w[name + ".bias"]


def gelu_new(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attention(x, w, name):
    batch, tokens, _ = x.shape
    width = HIDDEN // HEADS
    query, key, value = linear(x, w, name + ".c_attn").split(HIDDEN, dim=-1)

    def heads(t):
        return t.reshape(batch, tokens, HEADS, width).transpose(1, 2)

    scores = heads(query) @ heads(key).transpose(-2, -1) / math.sqrt(width)
    past = torch.tril(torch.ones(tokens, tokens, dtype=torch.bool))
    scores = scores.masked_fill(~past, float("-inf"))
    mixed = torch.softmax(scores, dim=-1) @ heads(value)
    return linear(mixed.transpose(1, 2).reshape(batch, tokens, HIDDEN), w, name + ".c_proj")


def forward(tokens, w, tied):
    x = w["wte.weight"][tokens] + w["wpe.weight"][: tokens.shape[1]]
    for layer in range(LAYERS):
        h = f"h.{layer}."
        x = x + attention(layer_norm(x, w, h + "ln_1"), w, h + "attn")
        wide = gelu_new(linear(layer_norm(x, w, h + "ln_2"), w, h + "mlp.c_fc"))
        x = x + linear(wide, w, h + "mlp.c_proj")
    return layer_norm(x, w, "ln_f") @ w["wte.weight" if tied else "lm_head.weight"].T


def mean_loss(logits, targets):
    chosen = logits.gather(-1, targets[..., None])[..., 0]
    return (torch.logsumexp(logits, -1) - chosen).mean()


def run(weights, tokens, targets, tied):
    w = {name: value.clone().requires_grad_() for name, value in weights.items()}
    if tied:
        del w["lm_head.weight"]
    logits = forward(tokens, w, tied)
    loss = mean_loss(logits, targets)
    loss.backward()
    kind = "tied" if tied else "untied"
    result = {f"{kind}.logits": logits.detach(), f"{kind}.loss": loss.detach()}
    result |= {f"{kind}.gradient.{name}": value.grad for name, value in w.items()}
    return result


def write_safetensors(path, tensors, metadata):
    names = {torch.float64: "F64", torch.int64: "I64"}
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in sorted(tensors.items()):
        raw = tensor.contiguous().numpy().tobytes()
        header[name] = {
            "dtype": names[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    default = Path(__file__).parent.parent / "tests/parity/gpt2_tiny.safetensors"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    generator = torch.Generator().manual_seed(20210706)
    weights = make_weights(generator)
    text = torch.randint(VOCABULARY, (SEQUENCES, SEQUENCE + 1), generator=generator)
    tokens, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    tensors = {"weight." + name: value for name, value in weights.items()}
    tensors |= {"tokens": tokens, "targets": targets}
    tensors |= run(weights, tokens, targets, tied=False) | run(weights, tokens, targets, tied=True)
    sizes = dict(layers=LAYERS, hidden=HIDDEN, heads=HEADS, sequence=SEQUENCE)
    sizes |= dict(vocabulary=VOCABULARY)
    write_safetensors(path, tensors, {key: str(value) for key, value in sizes.items()})
    print(f"{path}: {len(tensors)} tensors, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
