#!/usr/bin/env python3
"""How well a profile predicts training: step times and peaks of memory.

Profiles the demo-like model on this machine, predicts a case of the table below, trains it, and so
on for all cases, in rounds; prints a table of both (Markdown). Each case is predicted from the
profile just before it, for the speed of shared machines changes from minute to minute. Its error is
the median over the rounds. What was disturbed is measured again.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

CONFIG = """
[model]
layers = 8
hidden = 128
heads = 4
sequence = 128
[data]
text = "data/bible.txt"
[train]
steps = 12
batch = 16
learning_rate = 2e-3
seed = 1
[pipeline]
stages = 2
micro_batch = 2
"""

# A step of pipedream is one micro-batch: short, so more of them are trained.
CASES = [
    ("gpipe", {"schedule": "gpipe"}),
    ("1f1b", {"schedule": "1f1b"}),
    ("chimera direct", {"schedule": "chimera"}),
    ("chimera doubling", {"schedule": "chimera", "method": "doubling", "recompute": "all"}),
    ("chimera halving", {"schedule": "chimera", "method": "halving"}),
    ("gems", {"schedule": "gems"}),
    ("pipedream-2bw", {"schedule": "pipedream-2bw", "clip": "0"}),
    ("pipedream", {"schedule": "pipedream", "clip": "0", "batch": "2", "steps": "96"}),
    ("1f1b recomputed", {"schedule": "1f1b", "recompute": "all"}),
    ("1f1b, some recomputed", {"schedule": "1f1b", "recompute": "2,1"}),
    ("1f1b, split 5,3", {"schedule": "1f1b", "split": "5,3"}),
    ("chimera, split 5,3", {"schedule": "chimera", "split": "5,3"}),
    ("gpipe, B = 4", {"schedule": "gpipe", "micro_batch": "4"}),
    ("chimera, B = 4", {"schedule": "chimera", "micro_batch": "4"}),
    ("chimera, B = 1", {"schedule": "chimera", "micro_batch": "1"}),
]

TRAIN_KEYS = ("clip", "batch", "steps")  # the others are of [pipeline]


def settings(keys):
    words = []
    for key, value in keys.items():
        section = "train" if key in TRAIN_KEYS else "pipeline"
        words += ["--set", f"{section}.{key}={value}"]
    return words


def processor_seconds():
    """That all programs together have used, and that those which this one started have."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:]]
    idle = ticks[3] + ticks[4]
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK"), own.ru_utime + own.ru_stime


def undisturbed(act, tries):
    """What act() returns, once nothing disturbed it, or the least disturbed of so many tries; and by
    how much. act() also returns how uneven its own times were: these cores, shared with other
    machines, run slower for seconds at a time, which nothing else shows. To that comes the part of a
    core that other programs used."""
    best = None
    for _ in range(tries):
        began, (used, own) = time.time(), processor_seconds()
        result, uneven = act()
        used2, own2 = processor_seconds()
        others = (used2 - used - (own2 - own)) / (time.time() - began)
        disturbed = uneven + max(0.0, others)
        if best is None or disturbed < best[1]:
            best = result, disturbed
        if disturbed < 0.05:
            break
    return best


def output(words):
    return subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def profile(options, config, path):
    """Writes it; how far the times of stages of several blocks spread."""
    text = output([f"{options.build}/chimera", "profile", config, "-o", path, "--micro-batches",
                   "1,2,4", "--repeats", str(options.repeats)])
    spreads = re.findall(r"/ ([\d.]+) %", text)
    return None, statistics.median(float(spread) / 100 for spread in spreads)


def train(build, config, words, folder):
    """Seconds of steps and bytes of ranks; how far the median step is from the quickest."""
    log = os.path.join(folder, "log")
    text = output([f"{build}/chimera", "train", config, "--log", log] + words)
    with open(log) as file:
        seconds = [json.loads(line)["seconds"] for line in file]
    peaks = re.search(r"megabytes held at most, by rank: measured ([\d.,]+), predicted", text)
    seconds = seconds[2:]  # the first ones warm up
    peaks = [1e6 * float(word) for word in peaks.group(1).split(",") if word]
    return (seconds, peaks), statistics.median(seconds) / min(seconds) - 1


def measure(options, folder):
    config, path = (os.path.join(folder, name) for name in ("config.toml", "profile.toml"))
    with open(config, "w") as file:
        file.write(CONFIG)
    found = {name: {"predicted": [], "measured": [], "peaks": [], "expected": []}
             for name, _ in CASES}
    for turn in range(options.rounds):
        for name, keys in CASES:
            case = found[name]
            words = settings(keys)
            undisturbed(lambda: profile(options, config, path), options.tries)
            said = json.loads(output([f"{options.build}/plan_accuracy", config, "--profile",
                                      path] + words))
            (seconds, peaks), disturbed = undisturbed(
                lambda: train(options.build, config, words, folder), options.tries)
            case["predicted"].append(said["seconds"])
            case["measured"].append(statistics.median(seconds))
            case["expected"], case["peaks"] = said["peak_bytes"], peaks
            print(f"round {turn} {name}: predicted {1e3 * said['seconds']:.1f} ms, measured "
                  f"{1e3 * case['measured'][-1]:.1f} ms (quickest {1e3 * min(seconds):.1f}); "
                  f"disturbed by {100 * disturbed:.0f} %", file=sys.stderr, flush=True)
    return found


def report(found):
    print("| case | predicted ms | measured ms | error | predicted MB | measured MB | error |")
    print("|---|---|---|---|---|---|---|")
    times, sizes = [], []
    for name, case in found.items():
        predicted = statistics.median(case["predicted"])
        measured = statistics.median(case["measured"])
        error = statistics.median(a / b - 1 for a, b in zip(case["predicted"], case["measured"]))
        off = [a / b - 1 for a, b in zip(case["expected"], case["peaks"])]
        times.append(abs(error))
        sizes += [abs(part) for part in off]
        megabytes = [", ".join(f"{value / 1e6:.1f}" for value in case[key])
                     for key in ("expected", "peaks")]
        print(f"| {name} | {1e3 * predicted:.1f} | {1e3 * measured:.1f} | {100 * error:+.1f} % | "
              f"{megabytes[0]} | {megabytes[1]} | {100 * max(off, key=abs):+.1f} % |")
    print(f"\ntime: mean error {100 * statistics.mean(times):.1f} %, worst {100 * max(times):.1f} %;"
          f" peaks: mean {100 * statistics.mean(sizes):.1f} %, worst {100 * max(sizes):.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--tries", type=int, default=3,
                        help="of each measurement, until nothing disturbs it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report(measure(options, folder))


if __name__ == "__main__":
    main()
