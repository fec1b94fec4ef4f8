#!/usr/bin/env python3
"""Breaks training runs on purpose, and goes on from their last checkpoint.

    tests/faults/kill_test.py build/chimera [--seeds N] [--kind KIND] [--first-seed S]

For each kind of fault and each seed, which chooses layout, rank, step and action: a small run under
mpirun (or as threads) is broken. Asserted is that it ends within the limit, that its exit code is
not 0, that every rank that is left says one error line, all the same, which names the culprit, and
that the last checkpoint (there is none yet where the first is still being written) resumes to the
end, with the losses of the run that nobody broke: bit for bit in the same layout, within 1e-10 in
another.

One seed a kind, or ten with CHIMERA_EXHAUSTIVE=1. Kinds that cannot be had here (a full disk needs
root) are left out, and said. Exits with 77 (skipped) and the reason where none can be run.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

SKIPPED = 77
KINDS = ("kill", "throw", "stall", "memory", "disk")
LIMIT_S = 5  # limits.seconds of all runs
SLACK_S = 5  # for processes to end, on a busy machine
LONG_S = 180  # a wait that ends only with a fault
STEPS, EVERY = 12, 2  # of a run; from one checkpoint to the next
CLOSE = 1e-10

CONFIG = """\
[model]
layers = 4
hidden = 16
heads = 2
sequence = 16
dropout = 0.1
dtype = "fp64"
[data]
text = "{text}"
[train]
batch = 8
learning_rate = 1e-2
seed = 3
steps = {steps}
checkpoint_every = {every}
checkpoint_keep = 2
[pipeline]
micro_batch = 1
[limits]
seconds = {limit}
"""


@dataclass(frozen=True)
class Layout:
    """How a run is laid out over ranks. The order of a sum changes with it, so losses may, a bit."""

    schedule: str = "chimera"
    stages: int = 2
    width: int = 2
    transport: str = "mpi"

    @property
    def ranks(self):
        return self.stages * self.width

    def settings(self):
        return {f"pipeline.{key}": value for key, value in vars(self).items()}


BROKEN = (Layout(), Layout(stages=4, width=1), Layout(schedule="1f1b"))


def resumed_layout(seed, broken):
    """Half of the seeds go on as they were, the others otherwise."""
    changes = ({"width": 1}, {"schedule": "1f1b", "stages": 2}, {"transport": "local"},
               {"stages": 2, "width": 1, "transport": "local"}, {"stages": 2, "width": 2})
    if seed % 2 == 0:
        return broken
    others = [replace(broken, **change) for change in changes]
    others = [other for other in others if other != broken]
    return others[seed // 2 % len(others)]


class Failure(Exception):
    """The program did not do as it should; the text says how."""


def expect(condition, what):
    if not condition:
        raise Failure(what)


# ---- running ----------------------------------------------------------------------------------


@dataclass
class Ended:
    code: int
    said: dict  # to stderr, by rank; a run of threads is rank 0, and -1 is mpirun
    end_s: float  # time.time() when the last process had ended

    @property
    def output(self):
        return "\n".join(f"  {rank}| {line}" for rank, text in sorted(self.said.items())
                         for line in text.splitlines())

    def errors(self):
        """The error lines by rank."""
        pattern = r"^(?:rank \d+: )?chimera: error: (.*)$"
        found = {rank: re.findall(pattern, text, re.M) for rank, text in self.said.items()}
        return {rank: lines for rank, lines in found.items() if lines}


class Bench:
    """Runs one program in one folder."""

    def __init__(self, program, folder):
        self.program, self.folder = Path(program).resolve(), Path(folder)
        text = self.folder / "text"
        text.write_text("".join(f"In the beginning was the word, number {i}. " for i in range(200)))
        self.config = self.folder / "run.toml"
        self.config.write_text(CONFIG.format(text=text, steps=STEPS, every=EVERY, limit=LIMIT_S))
        self.unbroken = {}  # losses by layout

    def words(self, layout, settings, options):
        words = [self.program, "train", self.config]
        for key, value in {**layout.settings(), **settings}.items():
            words += ["--set", f"{key}={value}"]
        words += options
        if layout.transport == "mpi":
            # Each rank to a file of its own: mpirun mixes lines, and drops them when it ends a job.
            to_file = f'exec "$@" 2>"{self.folder}/said.$OMPI_COMM_WORLD_RANK"'
            words = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", layout.ranks,
                     "sh", "-c", to_file, "sh"] + words
        return [str(word) for word in words]

    def run(self, layout, settings, *options):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        for old in self.folder.glob("said.*"):
            old.unlink()
        process = subprocess.Popen(self.words(layout, settings, options), env=environment, text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        hangs = False
        try:
            _, own = process.communicate(timeout=LONG_S)
        except subprocess.TimeoutExpired:
            hangs = True
            process.terminate()  # mpirun then ends its ranks
            _, own = process.communicate()
        end_s = time.time()
        said = {int(path.suffix[1:]): path.read_text() for path in self.folder.glob("said.*")}
        said[-1 if layout.transport == "mpi" else 0] = own
        ended = Ended(process.returncode, said, end_s)
        expect(not hangs, f"still running after {LONG_S} s; said:\n{ended.output}")
        return ended

    def whole_losses(self, layout):
        if layout not in self.unbroken:
            log = self.folder / "unbroken.log"
            ended = self.run(layout, {"train.checkpoint_every": 0}, "--log", log)
            expect(ended.code == 0, f"the unbroken run failed:\n{ended.output}")
            self.unbroken[layout] = losses(log)
            expect(sorted(self.unbroken[layout]) == list(range(1, STEPS + 1)),
                   "the unbroken run's log has not every step")
        return self.unbroken[layout]


def losses(log):
    lines = [json.loads(line) for line in Path(log).read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines}


# ---- what is expected -------------------------------------------------------------------------


def check_end(ended, log, layout, kind, culprit):
    expect(ended.code != 0, f"the broken run's exit code is 0; it said:\n{ended.output}")
    last_step_s = log.stat().st_mtime  # the fault is in the step after, of some milliseconds
    took_s = ended.end_s - last_step_s
    expect(took_s < LIMIT_S + SLACK_S, f"took {took_s:.1f} s to end after its last step")

    errors = ended.errors()
    threads = layout.transport == "local"
    mute = {culprit} if kind in ("kill", "stall") else set()  # a stalled rank may find its tongue
    speaking = {0} if threads else set(range(layout.ranks)) - mute
    expect(speaking <= set(errors) <= speaking | mute,
           f"ranks {sorted(speaking)} should speak, {sorted(errors)} do:\n{ended.output}")
    for rank, lines in errors.items():
        expect(len(lines) == 1, f"rank {rank} says {len(lines)} error lines:\n{ended.output}")
    texts = {lines[0] for lines in errors.values()}
    expect(len(texts) == 1, "ranks say different things:\n" + "\n".join(sorted(texts)))

    text = texts.pop()
    if kind == "disk":
        expect(re.search(r"\brank \d", text) and "No space left on device" in text,
               f"names no rank, or not the cause: {text}")
        return text
    expect(re.search(rf"\brank {culprit}\b", text), f"names not rank {culprit}: {text}")
    if kind != "kill":  # the dead may not have said where they were
        expect(re.search(r"\b(stage|step)\b", text), f"names no place: {text}")
    if kind == "throw":
        expect("thrown on purpose" in text, f"names not the cause: {text}")
    return text


def has_checkpoint(folder, done):
    """The first one is written in the background; the second waits for it, so it is there then."""
    whole = [path for path in Path(folder).glob("step-*") if ".tmp-" not in path.name]
    expect(whole or done <= 2 * EVERY, f"no checkpoint after {done} steps")
    return bool(whole)


def check_losses(resumed, whole, exact, begins):
    expect(resumed and max(resumed) == STEPS, f"the resumed run has the steps {sorted(resumed)}")
    first = min(resumed)
    expect((first == 1) == begins and (first - 1) % EVERY == 0, f"resumed at step {first}")
    for step, loss in resumed.items():
        difference = abs(loss - whole[step])
        expect(difference == 0 if exact else difference <= CLOSE,
               f"step {step}: loss {loss!r} after the resume, {whole[step]!r} unbroken")


# ---- one case ---------------------------------------------------------------------------------


@contextmanager
def small_disk(folder, size_bytes):
    """A disk of its own at the folder, too small; needs root."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def checkpoints_of(bench, kind, layout):
    """The folder for checkpoints; one that holds a checkpoint and a half, for kind disk."""
    folder = bench.folder / "checkpoints"
    if kind != "disk":
        yield folder
        return
    settings = {"train.checkpoint_folder": folder, "train.steps": EVERY}
    ended = bench.run(layout, settings)
    expect(ended.code == 0, f"the measured run failed:\n{ended.output}")
    size = sum(path.stat().st_size + 4096 for path in folder.rglob("*"))
    shutil.rmtree(folder)
    with small_disk(folder, size * 3 // 2):
        yield folder


def run_case(bench, kind, seed):
    chance = random.Random(seed)
    layout = BROKEN[seed % len(BROKEN)]
    if kind != "kill" and seed % 5 == 4:  # threads share their process's death
        layout = replace(layout, transport="local")
    culprit, step = chance.randrange(layout.ranks), EVERY + 2 + chance.randrange(STEPS - EVERY - 2)
    spec = f"{kind}@seed={seed},rank={culprit},step={step}"
    resumed = resumed_layout(seed, layout)
    whole = bench.whole_losses(layout)

    log, resumed_log = bench.folder / "broken.log", bench.folder / "resumed.log"
    for old in (log, resumed_log):
        old.unlink(missing_ok=True)
    with checkpoints_of(bench, kind, layout) as folder:
        settings = {"train.checkpoint_folder": folder}
        options = () if kind == "disk" else ("--fault", spec)
        ended = bench.run(layout, settings, "--log", log, *options)
        text = check_end(ended, log, layout, kind, culprit)
        if kind == "disk":
            subprocess.run(["mount", "-o", "remount,size=1g", folder], check=True)
        begins = not has_checkpoint(folder, max(losses(log), default=0))
        goes_on = () if begins else ("--resume", "latest")
        again = bench.run(resumed, settings, "--log", resumed_log, *goes_on)
        expect(again.code == 0, f"could not go on as {resumed}:\n{again.output}")
    shutil.rmtree(bench.folder / "checkpoints", ignore_errors=True)
    check_losses(losses(resumed_log), whole, resumed == layout, begins)
    return text


# ---- all cases --------------------------------------------------------------------------------


def why_not(program):
    if not shutil.which("mpirun"):
        return "there is no mpirun"
    options = subprocess.run([program, "train", "--help"], capture_output=True, text=True).stdout
    missing = [word for word in ("--fault", "--resume") if word not in options]
    return f"the program has no {' and no '.join(missing)}" if missing else None


def possible(kinds):
    if "disk" not in kinds or (os.geteuid() == 0 and shutil.which("mount")):
        return kinds
    print("left out: disk (a small disk needs root, for mount)")
    return [kind for kind in kinds if kind != "disk"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    seeds = 10 if os.environ.get("CHIMERA_EXHAUSTIVE") == "1" else 1
    parser.add_argument("--seeds", type=int, default=seeds, help=f"of each kind ({seeds})")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append", help="all, if none is given")
    options = parser.parse_args()
    kinds = possible(options.kind or list(KINDS))
    reason = why_not(options.program) if kinds else "nothing is left to run"
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    failures = 0
    with tempfile.TemporaryDirectory(prefix="chimera-faults-") as folder:
        bench = Bench(options.program, folder)
        for place, kind in enumerate(kinds):
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                # Few seeds should not all be of one layout.
                start_s, case = time.time(), seed + (place if options.seeds == 1 else 0)
                try:
                    said = "ok: " + run_case(bench, kind, case)
                except Failure as failure:
                    failures += 1
                    said = f"FAILED: {failure}"
                    shutil.rmtree(bench.folder / "checkpoints", ignore_errors=True)
                print(f"{kind}, seed {case}, {time.time() - start_s:.1f} s: {said}", flush=True)
    print(f"{failures} failed" if failures else "all as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
