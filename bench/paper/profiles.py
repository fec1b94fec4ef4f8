#!/usr/bin/env python3
"""Writes the profiles of the paper's two models on a P100: bert48_p100.toml and gpt2_p100.toml.

The only measurement is that of a BERT-large block, below. Everything else is derived from it:

  time      floating-point operations of the layer over those of the block, times the time that the
            block takes for the same number of tokens. GPT-2's are divided by one efficiency,
            fitted (fit.py), and its optimizer's step is from bytes.
  memory    16 bytes a parameter: fp32 weights, gradients and Adam's two moments. The block's
            activations are as measured, times ACTIVATIONS, fitted to DAPPLE's bars in the paper's
            figure 9: the training script computes GELU from single operations, each of which keeps
            its result. GPT-2's block keeps GPT2_ACTIVATIONS words a token, fitted likewise.
"""

import argparse
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent

# The authors' layer profile of BERT-large on a P100, sequences of 128 tokens, fp32: sequences,
# forward and backward in ms, activations in MiB, peak of the backward in MiB. From
# github.com/kazukiosawa/pipe-fisher, prof/ (bert-large, P100).
BLOCK = [
    (1, 1.1624813, 1.6711712, 11.0020, 67.0508),
    (2, 1.5149593, 2.5648355, 22.0039, 70.0508),
    (4, 2.5175571, 4.1981936, 44.0078, 76.0508),
    (8, 4.5000076, 7.6531649, 88.0156, 100.0669),
    (16, 9.2985631, 14.8756027, 176.0313, 144.0669),
    (32, 16.1003590, 26.9528866, 352.0625, 192.0508),
    (64, 31.0692310, 52.8838396, 704.1250, 336.0508),
]
MIB = 2**20
BERT_TOKENS = 128
GPT2_TOKENS = 632

ACTIVATIONS = 1.36
GPT2_ACTIVATIONS = 62.5  # times hidden
GPT2_EFFICIENCY = 0.901

BYTES_PER_S = 5e11  # of a P100's memory, as plain element-wise kernels reach
STEP_BYTES = 60  # that Adam of single operations reads and writes, a parameter


def bert_block_flops():  # of a forward, a token
    return 24 * 1024**2 + 4 * BERT_TOKENS * 1024


def block_time(tokens, column):
    """Seconds of the measured block for so many tokens, on the line between measured sizes."""
    points = [(row[0] * BERT_TOKENS, row[column] / 1e3) for row in BLOCK]
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if tokens <= x1:
            return y0 + (y1 - y0) * (tokens - x0) / (x1 - x0)
    raise ValueError(tokens)


def scaled_times(flops_a_token, tokens, efficiency=1.0):
    factor = flops_a_token / bert_block_flops() / efficiency
    return factor * block_time(tokens, 1), factor * block_time(tokens, 2)


def point(sequences, forward, backward, stash, work, output):
    return {
        "sequences": sequences,
        "forward_s": forward,
        "backward_s": backward,
        "backward_input_s": backward / 2,
        "recompute_s": forward,
        "stash_bytes": stash,
        "forward_work_bytes": 0,
        "kept_forward_work_bytes": stash,
        "recompute_work_bytes": 0,
        "backward_work_bytes": work,
        "output_bytes": output,
    }


def kind(name, parameters, points):
    return {
        "name": name,
        "parameters": parameters,
        "weight_bytes": 4 * parameters,
        "gradient_bytes": 4 * parameters,
        "optimizer_bytes": 8 * parameters,
        "step_s": STEP_BYTES * parameters / BYTES_PER_S,
        "step_bytes": 0,
        "point": points,
    }


def embedding_point(sequences, tokens, hidden, parameters):
    """Lookup, norm and dropout. The backward fills a gradient of the whole table and adds it up:
    four passes over it."""
    row = 4 * hidden * tokens
    forward = 6 * row / BYTES_PER_S
    backward = (6 * row + 16 * parameters) / BYTES_PER_S
    return point(sequences, forward, backward, 4 * row, 4 * parameters, row)


def bert_kinds(activations=ACTIVATIONS):
    embedding, block, head = [], [], []
    for sequences, forward, backward, act, peak in BLOCK:
        tokens = sequences * BERT_TOKENS
        # The activations and the attention mask, as the authors' messages have them.
        message = 4 * (tokens * 1024 + tokens)
        block.append(point(sequences, forward / 1e3, backward / 1e3, activations * act * MIB,
                           peak * MIB, message))
        embedding.append(embedding_point(sequences, tokens, 1024, 31_782_912))
        embedding[-1]["output_bytes"] = message
        # The masked-language head is computed for every token: a dense layer and the decoder.
        forward, backward = scaled_times(2 * 1024 * (1024 + 30522), tokens)
        logits = 4 * tokens * 30522
        head.append(point(sequences, forward, backward, 2 * logits, 2 * logits, 0))
    return [
        kind("embedding", 31_782_912, embedding),
        kind("block", 12_596_224, block),
        kind("head", 33_388_348, head),
    ]


def gpt2_kinds(efficiency=GPT2_EFFICIENCY, activations=GPT2_ACTIVATIONS):
    embedding, block, head = [], [], []
    hidden = 1280
    for sequences in (1, 2, 4, 8):
        tokens = sequences * GPT2_TOKENS
        message = 4 * tokens * hidden
        forward, backward = scaled_times(24 * hidden**2 + 4 * GPT2_TOKENS * hidden, tokens,
                                         efficiency)
        scores = 4 * tokens * 20 * GPT2_TOKENS
        block.append(point(sequences, forward, backward, activations * message, 3 * scores,
                           message))
        embedding.append(embedding_point(sequences, tokens, hidden, 65_639_680))
        forward, backward = scaled_times(2 * hidden * 50257, tokens, efficiency)
        logits = 4 * tokens * 50257
        head.append(point(sequences, forward, backward, 2 * logits, 2 * logits, 0))
    return [
        kind("embedding", 65_639_680, embedding),
        kind("block", 19_677_440, block),
        kind("head", 64_331_520, head),
    ]


def number(value):
    return repr(value) if isinstance(value, int) else f"{value:.7g}"


def profile_text(source, model, blocks, kinds):
    lines = [
        "# Written by profiles.py, which says where each number is from.",
        'format = "chimera-profile-1"',
        'device = "P100, 16 GB"',
        f'source = """{source}"""',
        'first = ["embedding"]',
        f'blocks = ["{blocks} block"]',
        'last = ["head"]',
        "step_s = 0",
        "shared_parameters = 0",
        "",
        "[model]",
    ]
    lines += [f'{key} = "{value}"' for key, value in model.items()]
    for layer in kinds:
        lines += ["", "[[layer]]"]
        for key, value in layer.items():
            if key == "point":
                continue
            lines.append(f'{key} = "{value}"' if key == "name" else f"{key} = {number(value)}")
        for one in layer["point"]:
            lines += ["", "[[layer.point]]"]
            lines += [f"{key} = {number(value)}" for key, value in one.items()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--gpt2-efficiency", type=float, default=GPT2_EFFICIENCY)
    parser.add_argument("--activations", type=float, default=ACTIVATIONS)
    parser.add_argument("--gpt2-activations", type=float, default=GPT2_ACTIVATIONS)
    arguments = parser.parse_args()
    (arguments.folder / "bert48_p100.toml").write_text(
        profile_text(
            "Block: measured by Chimera's authors (BERT-large on a P100, sequences of 128, fp32). "
            "Embedding and head derived, see bench/paper/profiles.py.",
            {"name": "BERT-48", "hidden": "1024", "heads": "16", "sequence": "128",
             "vocabulary": "30522"},
            48, bert_kinds(arguments.activations)))
    (arguments.folder / "gpt2_p100.toml").write_text(
        profile_text(
            "Derived from Chimera's authors' BERT-large block on a P100 by floating-point "
            "operations, see bench/paper/profiles.py; efficiency fitted.",
            {"name": "GPT-2", "hidden": "1280", "heads": "20", "sequence": "632",
             "vocabulary": "50257"},
            64, gpt2_kinds(arguments.gpt2_efficiency, arguments.gpt2_activations)))


if __name__ == "__main__":
    main()
