#!/usr/bin/env python3
"""Runs the measurements of docs/results and writes their tables.

    bench/measure.py overhead [--quick]     runtime against simulation, beside torch.distributed.pipelining
    bench/measure.py training [--quick]     tokens per second of a real GPT-2, D = 2 against one core

Runs what is compared in turns, several rounds of each, and takes medians: the machines are noisy.
Only ratios of two things of one run mean anything.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("CHIMERA_BUILD", ROOT / "build"))
PYTHON = ROOT / ".venv/bin/python"


def lines_of(command):
    """The JSON objects that a command prints, one a line."""
    result = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"measure: error: {' '.join(map(str, command))} failed:\n{result.stderr[-2000:]}")
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def head():
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True,
                            text=True).stdout.strip()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                if line.startswith("model name")), platform.machine())
    return (f"Commit {commit}, {os.cpu_count()} cores ({cpu}), load "
            f"{os.getloadavg()[0]:.1f} at the end.\n")


def table(titles, rows):
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def write(name, text):
    path = ROOT / "docs/results" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(text)
    print(f"measure: wrote {path.relative_to(ROOT)}", file=sys.stderr)


# ---- overhead

def ours(stages, units, forward_ms, sizes, repetitions):
    return lines_of([BUILD / "runtime_overhead", "--stages", ",".join(map(str, stages)), "--units",
                     ",".join(map(str, units)), "--forward-ms", ",".join(map(str, forward_ms)),
                     "--bytes", ",".join(map(str, sizes)), "--repetitions", repetitions])


def theirs(stages, units, forward_ms, sizes, steps):
    found = []
    for d in stages:
        for ms in forward_ms:
            found += lines_of([PYTHON, "bench/peers/pipelining_overhead.py", "--stages", d, "--micros",
                               ",".join(str(d * unit) for unit in units), "--bytes",
                               ",".join(map(str, sizes)), "--forward", ms / 1000, "--backward",
                               2 * ms / 1000, "--steps", steps, "--warmup", 1, "--timeout", 600])
    return found


def key_of(line):
    return (round(1000 * line["forward_s"]), line["bytes"], line["stages"], line["micros"])


def overhead(options):
    stages, units = [4, 8, 16], ([1] if options.quick else [1, 2, 4])
    peer_stages, peer_units = [4, 8], ([1] if options.quick else [1, 2])
    forward_ms, sizes = [10, 2], [4096, 4 << 20]
    ratios, seconds, simulated = {}, {}, {}
    for _ in range(options.rounds):
        for line in ours(stages, units, forward_ms, sizes, 1):
            key = (key_of(line), line["schedule"])
            ratios.setdefault(key, []).append(line["ratio"])
            seconds.setdefault(key, []).append(line["measured_s"])
            simulated[key] = line["simulated_s"]
        for line in theirs(peer_stages, peer_units, forward_ms, sizes, 1):
            ratios.setdefault((key_of(line), "peer " + line["schedule"]), []).append(line["ratio"])
    median = {key: statistics.median(values) for key, values in ratios.items()}
    columns = ["gpipe", "1f1b", "chimera", "peer gpipe", "peer 1f1b"]
    keys = sorted({key for key, _ in median}, key=lambda key: (-key[0], key[1:]))
    rows = [[f"{ms}/{2 * ms} ms", "4 KB" if size == 4096 else "4 MB", d, n]
            + [f"{median[key, c]:.3f}" if (key, c) in median else "" for c in columns]
            for key in keys for ms, size, d, n in [key]]
    worst = [[f"{ms}/{2 * ms} ms", f"{max(v for (k, c), v in median.items() if k[0] == ms and not c.startswith('peer')):.3f}",
              f"{statistics.median(v for (k, c), v in median.items() if k[0] == ms and not c.startswith('peer')):.3f}"]
             for ms in forward_ms]
    gains = []
    for key in keys:
        ms, size, d, n = key
        if d != n:
            continue
        best = min(statistics.median(seconds[key, c]) for c in ("gpipe", "1f1b"))
        ideal = min(simulated[key, c] for c in ("gpipe", "1f1b")) / simulated[key, "chimera"]
        gains.append([f"{ms}/{2 * ms} ms", "4 KB" if size == 4096 else "4 MB", d, n,
                      f"{best / statistics.median(seconds[key, 'chimera']):.3f}", f"{ideal:.3f}"])
    write("overhead.md", f"""# What the runtime costs

Measured over simulated makespan of a step. Stages wait a set time instead of computing (forward /
backward below), one worker a thread; messages of the size given; median of {options.rounds} rounds,
in turns with `torch.distributed.pipelining` (gloo, one process a stage; "peer" below), whose ideal
is (N + D - 1)(F + B). Our messages are handed over between threads, theirs copied between processes.

Command: `bench/measure.py overhead --rounds {options.rounds}{' --quick' if options.quick else ''}`. {head()}
{table(["operations", "worst of ours", "median of ours"], worst)}
{table(["operations", "message", "D", "N"] + columns, rows)}
Chimera's step against the better of GPipe and 1F1B at N = D, as measured and as simulated:

{table(["operations", "message", "D", "N", "measured gain", "simulated gain"], gains)}""")


# ---- training

MODEL = {"layers": 4, "hidden": 256, "heads": 4, "sequence": 128}
BATCH, MICRO = 16, 2

CONFIG = """
[model]
layers = {layers}
hidden = {hidden}
heads = {heads}
sequence = {sequence}
[data]
text = "data/bible.txt"
[train]
steps = {steps}
batch = {batch}
learning_rate = 3e-4
clip = 0
[pipeline]
schedule = "{schedule}"
stages = {stages}
micro_batch = {micro}
"""


def chimera_run(schedule, stages, steps):
    """Median tokens per second and predicted bubble ratio over the steps after the first two."""
    with tempfile.TemporaryDirectory() as folder:
        config, log = pathlib.Path(folder) / "run.toml", pathlib.Path(folder) / "log"
        config.write_text(CONFIG.format(**MODEL, steps=steps + 2, batch=BATCH, micro=MICRO,
                                        schedule=schedule, stages=stages))
        lines_of([BUILD / "chimera", "train", config, "--log", log])
        lines = [json.loads(line) for line in log.read_text().splitlines()][2:]
    return (statistics.median(line["tokens_per_s"] for line in lines),
            statistics.median(line["predicted_bubble_ratio"] for line in lines))


def peer_run(schedule, stages, steps):
    words = [PYTHON, "bench/peers/pipelining_training.py", "--stages", stages, "--schedule", schedule,
             "--batch", BATCH, "--micro-batch", MICRO, "--fused", "--steps", steps, "--warmup", 2]
    for name, value in MODEL.items():
        words += ["--" + name, value]
    return lines_of(words)[0]["tokens_per_s"], None


def training(options):
    steps = 6 if options.quick else 12
    runs = {("chimera", "gpipe", 1): chimera_run, ("chimera", "gpipe", 2): chimera_run,
            ("chimera", "1f1b", 2): chimera_run, ("chimera", "chimera", 2): chimera_run,
            ("peer", "gpipe", 1): peer_run, ("peer", "gpipe", 2): peer_run,
            ("peer", "1f1b", 2): peer_run}
    speed, bubble = {key: [] for key in runs}, {key: [] for key in runs}
    for _ in range(options.rounds):
        for key, run in runs.items():
            tokens_per_s, ratio = run(key[1], key[2], steps)
            speed[key].append(tokens_per_s)
            bubble[key].append(ratio)
    one = statistics.median(speed["chimera", "gpipe", 1])
    rows = []
    for (system, schedule, d), values in speed.items():
        tokens = statistics.median(values)
        row = [system, schedule if d > 1 else "one worker", d, f"{tokens:.0f}", f"{tokens / one:.2f}"]
        if system == "chimera" and d > 1:
            ratio = statistics.median(bubble[system, schedule, d])
            row += [f"{ratio:.3f}", f"{tokens / (d * one * (1 - ratio)):.3f}"]
        else:
            row += ["", ""]
        rows.append(row)
    size = ", ".join(f"{name} {value}" for name, value in MODEL.items())
    write("training.md", f"""# Training a real GPT-2 on two cores

GPT-2 with {size}, fp32, batch {BATCH} in micro-batches of {MICRO}; one core a worker. "of what is possible" is
tokens/s over D x (tokens/s of one worker) x (1 - simulated bubble ratio). Peer: the same model on
torch.distributed.pipelining (gloo, one process a stage) or plain PyTorch. Medians of
{options.rounds} rounds of {steps} steps, in turns.

Command: `bench/measure.py training --rounds {options.rounds}{' --quick' if options.quick else ''}`. {head()}
{table(["system", "schedule", "D", "tokens/s", "over one worker", "simulated bubble ratio",
       "of what is possible"], rows)}""")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["overhead", "training"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and steps")
    options = parser.parse_args()
    {"overhead": overhead, "training": training}[options.what](options)


if __name__ == "__main__":
    main()
