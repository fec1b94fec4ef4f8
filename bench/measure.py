#!/usr/bin/env python3
"""Runs the measurements of docs/results and writes their tables.

    bench/measure.py overhead [--quick] [--only peer|schedules]
        runtime against simulation: beside torch.distributed.pipelining, then of all schedules
    bench/measure.py training [--quick]
        tokens per second of a real GPT-2, D = 2 against one core

Runs what is compared in turns, several rounds of each, and takes medians: the machines are noisy.
Only ratios of two things of one run mean anything.
"""

import argparse
import json
import os
import pathlib
import platform
import re
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


def write_section(name, title, text):
    """Replaces the section of that title, or adds it at the end; the rest of the file stays."""
    path = ROOT / "docs/results" / name
    sections = re.split(r"(?m)^(?=## )", path.read_text())
    heading = f"## {title}\n"
    found = [i for i, section in enumerate(sections) if section.startswith(heading)]
    at = found[0] if found else len(sections)
    sections[at:at + 1] = [f"{heading}\n{text}"]
    write(name, "\n".join(section.rstrip("\n") + "\n" for section in sections))


# ---- overhead

# In the terms of runtime_overhead --schedules.
BESIDE_PEER = ["gpipe", "1f1b", "chimera direct"]
BEYOND_PEER = ["1f1b recompute", "gems", "chimera direct", "chimera doubling",
               "chimera doubling recompute", "chimera doubling fused", "chimera halving",
               "chimera direct f=2", "chimera doubling f=2", "chimera doubling fused f=2",
               "chimera halving f=2", "pipedream", "pipedream-2bw"]


def ours(schedules, stages, units, forward_ms, sizes, repetitions):
    lists = {"schedules": schedules, "stages": stages, "units": units, "forward-ms": forward_ms,
             "bytes": sizes, "repetitions": [repetitions]}
    words = [word for name, values in lists.items()
             for word in ("--" + name, ",".join(map(str, values)))]
    return lines_of([BUILD / "runtime_overhead"] + words)


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


def words_of(key):
    """The first cells of a row: how long operations take, how big messages are."""
    ms, size = key[:2]
    return [f"{ms}/{2 * ms} ms", "4 KB" if size == 4096 else "4 MB"]


def spread(ratios):
    """Worst and median of our median ratios, for each length of operations."""
    rows = []
    for ms in sorted({key[0] for key, _ in ratios}, reverse=True):
        values = [value for (key, schedule), value in ratios.items()
                  if key[0] == ms and not schedule.startswith("peer")]
        rows.append([f"{ms}/{2 * ms} ms", f"{max(values):.3f}", f"{statistics.median(values):.3f}"])
    return table(["operations", "worst of ours", "median of ours"], rows)


def command(options, part):
    return (f"Command: `bench/measure.py overhead --only {part} --rounds {options.rounds}"
            f"{' --quick' if options.quick else ''}`. {head()}")


def in_order(keys):
    return sorted(set(keys), key=lambda key: (-key[0], key[1:]))


def overhead_beside_peer(options):
    stages, units = [4, 8, 16], ([1] if options.quick else [1, 2, 4])
    peer_stages, peer_units = [4, 8], ([1] if options.quick else [1, 2])
    forward_ms, sizes = [10, 2], [4096, 4 << 20]
    ratios, seconds, simulated = {}, {}, {}
    for _ in range(options.rounds):
        for line in ours(BESIDE_PEER, stages, units, forward_ms, sizes, 1):
            key = (key_of(line), line["schedule"])
            ratios.setdefault(key, []).append(line["ratio"])
            seconds.setdefault(key, []).append(line["measured_s"])
            simulated[key] = line["simulated_s"]
        for line in theirs(peer_stages, peer_units, forward_ms, sizes, 1):
            ratios.setdefault((key_of(line), "peer " + line["schedule"]), []).append(line["ratio"])
    median = {key: statistics.median(values) for key, values in ratios.items()}
    columns = BESIDE_PEER + ["peer gpipe", "peer 1f1b"]
    keys = in_order(key for key, _ in median)
    rows = [words_of(key) + [*key[2:]]
            + [f"{median[key, c]:.3f}" if (key, c) in median else "" for c in columns]
            for key in keys]
    gains = []
    for key in keys:
        if key[2] != key[3]:
            continue
        best = min(statistics.median(seconds[key, c]) for c in ("gpipe", "1f1b"))
        ideal = min(simulated[key, c] for c in ("gpipe", "1f1b")) / simulated[key, "chimera direct"]
        gain = best / statistics.median(seconds[key, "chimera direct"])
        gains.append(words_of(key) + [*key[2:], f"{gain:.3f}", f"{ideal:.3f}"])
    write_section("overhead.md", "Beside torch.distributed.pipelining", f"""\
Median of {options.rounds} rounds of a step, in turns with `torch.distributed.pipelining` (gloo, one
process a stage; "peer" below), whose ideal is (N + D - 1)(F + B). Our messages are handed over
between threads, theirs copied between processes.

{command(options, "peer")}
{spread(median)}
{table(["operations", "message", "D", "N"] + columns, rows)}
Chimera's step against the better of GPipe and 1F1B at N = D, as measured and as simulated:

{table(["operations", "message", "D", "N", "measured gain", "simulated gain"], gains)}""")


def overhead_of_schedules(options):
    forward_ms, sizes = [10, 2], ([4 << 20] if options.quick else [4096, 4 << 20])
    ratios = {}
    for _ in range(options.rounds):
        for line in ours(BEYOND_PEER, [4, 8], [1, 2], forward_ms, sizes, 1):
            ratios.setdefault((key_of(line), line["schedule"]), []).append(line["ratio"])
    median = {key: statistics.median(values) for key, values in ratios.items()}
    shapes = sorted({key[2:] for key, _ in median})
    rows = []
    for load in in_order(key[:2] for key, _ in median):
        for schedule in BEYOND_PEER:
            cells = [median.get((load + shape, schedule)) for shape in shapes]
            rows.append(words_of(load) + [schedule] + [f"{c:.3f}" if c else "" for c in cells])
    write_section("overhead.md", "All schedules", f"""\
Median of {options.rounds} rounds of a step, or of a run of two steps of an asynchronous schedule.
Recompute is of all stages, in place of a stash; f=2 are two pairs of pipes. Halving has 2N
micro-batches, with half the times and half the message. Left out: doubling at N = D, where it is
direct; GEMS where it takes long, about N D B; f=2 at all sizes but one.

{command(options, "schedules")}
{spread(median)}
{table(["operations", "message", "schedule"] + [f"D={d} N={n}" for d, n in shapes], rows)}""")


def overhead(options):
    parts = {"peer": overhead_beside_peer, "schedules": overhead_of_schedules}
    for part in [options.only] if options.only else parts:
        parts[part](options)


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
    parser.add_argument("--only", choices=["peer", "schedules"], help="one part of overhead")
    options = parser.parse_args()
    if options.only and options.what != "overhead":
        parser.error(f"--only names a part of overhead; leave it out for {options.what}")
    {"overhead": overhead, "training": training}[options.what](options)


if __name__ == "__main__":
    main()
