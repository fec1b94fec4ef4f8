#!/usr/bin/env python3
"""Tokens per second of a GPT-2 on torch.distributed.pipelining, or on plain PyTorch with one stage.

The model is that of chimera/model/gpt2.cc: pre-norm blocks, fused causal attention, gelu with tanh,
learned positions, a head of its own; the same split (blocks of each stage; the embedding goes with
the first, the norm and head with the last), fp32, AdamW. One process a stage, with one thread each.
Initial weights depend on the seed and the layer alone, so the losses of all layouts agree. Tokens
are random; each step has the same. Prints one JSON object.

    python3 bench/peers/pipelining_training.py --stages 2 --schedule 1f1b --layers 4 --hidden 256
"""

import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

import group

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


class Embedding(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.tokens = nn.Embedding(options.vocabulary, options.hidden)
        self.positions = nn.Embedding(options.sequence, options.hidden)

    def forward(self, input):
        return self.tokens(input) + self.positions.weight[: input.size(1)]


class Block(nn.Module):
    def __init__(self, options):
        super().__init__()
        hidden, self.heads = options.hidden, options.heads
        self.norm_1, self.norm_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.widen, self.narrow = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def attention(self, input):
        batch, tokens, hidden = input.shape
        split = self.qkv(input).view(batch, tokens, 3, self.heads, hidden // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, hidden))

    def forward(self, input):
        hidden = input + self.attention(self.norm_1(input))
        inner = F.gelu(self.widen(self.norm_2(hidden)), approximate="tanh")
        return hidden + self.narrow(inner)


class Head(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.norm = nn.LayerNorm(options.hidden)
        self.head = nn.Linear(options.hidden, options.vocabulary, bias=False)

    def forward(self, input):
        return self.head(self.norm(input))


def make_layer(options, layer):
    """Layer by global index: 0 the embedding, then the blocks, last the norm and head."""
    torch.manual_seed(options.seed * 10007 + layer)
    kind = Embedding if layer == 0 else Head if layer == options.layers + 1 else Block
    module = kind(options)
    for name, parameter in module.named_parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return module


def make_stage(options, stage):
    first = 1 + sum(options.split[:stage])
    layers = list(range(first, first + options.split[stage]))
    if stage == 0:
        layers.insert(0, 0)
    if stage == options.stages - 1:
        layers.append(options.layers + 1)
    return nn.Sequential(*[make_layer(options, layer) for layer in layers])


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def tokens_and_targets(options):
    torch.manual_seed(options.seed)
    rows = torch.randint(options.vocabulary, (options.batch, options.sequence + 1))
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


class Plain:
    """One process: forward and backward of one micro-batch after the other."""

    def __init__(self, options, model):
        self.model, self.micro_batch = model, options.micro_batch
        self.micros = options.batch // options.micro_batch

    def step(self, tokens, targets):
        total = 0.0
        for part, expected in zip(tokens.split(self.micro_batch), targets.split(self.micro_batch)):
            loss = loss_of(self.model(part), expected) / self.micros
            loss.backward()
            total += float(loss.detach())
        return total


class Pipelined:
    """This rank's stage under one of the library's schedules; the last rank knows the loss."""

    def __init__(self, rank, options, model):
        self.rank, self.last = rank, rank == options.stages - 1
        hidden = torch.zeros(options.micro_batch, options.sequence, options.hidden)
        tokens = torch.zeros(options.micro_batch, options.sequence, dtype=torch.int64)
        logits = torch.zeros(options.micro_batch, options.sequence, options.vocabulary)
        stage = PipelineStage(
            model,
            rank,
            options.stages,
            torch.device("cpu"),
            input_args=(tokens if rank == 0 else hidden.clone().requires_grad_(),),
            output_args=((logits if self.last else hidden).clone().requires_grad_(),),
        )
        micros = options.batch // options.micro_batch
        self.schedule = SCHEDULES[options.schedule](stage, micros, loss_fn=loss_of)

    def step(self, tokens, targets):
        losses = []
        inputs = (tokens,) if self.rank == 0 else ()
        self.schedule.step(
            *inputs, target=targets if self.last else None, losses=losses, return_outputs=False
        )
        return float(torch.stack(losses).detach().mean()) if self.last else 0.0


def clip(parameters, limit):
    """Scales the gradients of all stages to a global norm of at most `limit`."""
    square = torch.stack([p.grad.square().sum() for p in parameters]).sum()
    dist.all_reduce(square)
    scale = min(1.0, limit / (float(square) ** 0.5 + 1e-6))
    if scale < 1:
        torch._foreach_mul_([p.grad for p in parameters], scale)


def train(rank, size, options):
    model = make_stage(options, rank)
    runner = Plain(options, model) if size == 1 else Pipelined(rank, options, model)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        parameters, lr=options.learning_rate, weight_decay=0.1, fused=options.fused or None
    )
    tokens, targets = tokens_and_targets(options)
    seconds, losses = [], []
    for _ in range(options.warmup + options.steps):
        dist.barrier()
        begin = time.monotonic()
        loss = runner.step(tokens, targets)
        if options.clip > 0:
            clip(parameters, options.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        seconds.append(group.span_of_step(begin, time.monotonic()))
        losses.append(whole_loss(loss))
    return report(options, seconds[options.warmup :], losses)


def whole_loss(loss):
    total = torch.tensor(loss, dtype=torch.float64)
    dist.all_reduce(total)
    return float(total)


def report(options, seconds, losses):
    step_s = statistics.median(seconds)
    names = vars(options).copy()
    if options.stages == 1:
        names["schedule"] = None
    return {
        "peer": "pytorch" if options.stages == 1 else "torch.distributed.pipelining",
        **names,
        "step_s": step_s,
        "tokens_per_s": options.batch * options.sequence / step_s,
        "first_loss": losses[0],
        "last_loss": losses[-1],
    }


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stages", type=int, default=2, help="1: plain PyTorch, one process")
    parser.add_argument("--schedule", choices=SCHEDULES, default="1f1b")
    parser.add_argument("--layers", type=int, default=4, help="transformer blocks")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--split", help="blocks of each stage, as in 2,2 (default: even)")
    parser.add_argument("--batch", type=int, default=16, help="sequences of a step")
    parser.add_argument("--micro-batch", type=int, default=2, help="sequences of a micro-batch")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--clip", type=float, default=0.0, help="global gradient norm; 0: no limit")
    parser.add_argument("--fused", action="store_true", help="AdamW as one kernel")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10, help="measured steps")
    parser.add_argument("--warmup", type=int, default=2, help="steps before them")
    parser.add_argument("--timeout", type=float, default=300, help="seconds, for the whole run")
    options = parser.parse_args()
    check(parser, options)
    return options


def check(parser, options):
    counts = ("stages", "layers", "hidden", "heads", "sequence", "vocabulary", "batch",
              "micro_batch", "steps")
    for name in counts:
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if options.split is None:
        least, more = divmod(options.layers, options.stages)
        options.split = [least + (stage < more) for stage in range(options.stages)]
    else:
        options.split = [int(part) for part in options.split.split(",")]
    if len(options.split) != options.stages or sum(options.split) != options.layers:
        parser.error(f"split {options.split} is not {options.stages} stages of {options.layers} "
                     f"blocks in all")
    if options.hidden % options.heads != 0:
        parser.error("--heads must divide --hidden")
    if options.batch % options.micro_batch != 0:
        parser.error("this library takes equal micro-batches: --micro-batch must divide --batch")


def main():
    options = parse_options()
    print(json.dumps(group.run(options.stages, train, options, options.timeout)), flush=True)


if __name__ == "__main__":
    main()
