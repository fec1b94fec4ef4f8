#!/usr/bin/env python3
"""Exchanges schedules with torch.distributed.pipelining, both ways, as CSV.

    .venv/bin/python tests/exchange/torch_csv.py build/chimera

Ours: gpipe and 1f1b for 2 and 4 ranks are exported, loaded into torch's runtime, and a small MLP is
trained with them; every gradient of every step equals that of the whole model on one process.
Theirs: schedules that torch generates and dumps, interleaved and zero-bubble, are read, verified,
written again in the same order, and trained in the same way. What the CSV cannot hold is refused.

One process a rank on the CPU, fp64. Exits with 77 (skipped) where there is no torch that can.
"""

import datetime
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
WIDTH, BATCH_OF_MICRO, STEPS, TOLERANCE = 6, 3, 3, 1e-12

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining import schedules as theirs

    RUNTIME = theirs._PipelineScheduleRuntime
    theirs._ComputationType("I")  # earlier versions have other letters
except (ImportError, AttributeError, ValueError) as error:
    print(f"skipped: no torch.distributed.pipelining of 2.6 or newer in {sys.executable}: {error}")
    sys.exit(SKIPPED)


def chimera(program, *words, code=0):
    """What the program prints, on either stream, after it has exited with `code`."""
    result = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=60)
    said = result.stdout + result.stderr
    assert result.returncode == code, f"{words} exited with {result.returncode}: {said}"
    return said


def rows(path):
    lines = Path(path).read_text().split("\n")
    return [[cell for cell in line.strip().split(",") if cell] for line in lines if line.strip()]


def stages_of(actions):
    """The stages that a rank holds; the runtime wants to know them before it loads the file."""
    return sorted({int(action[: next(i for i, c in enumerate(action) if c.isalpha())])
                   for action in actions})


def make_model(stages):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64) for _ in range(stages)]
    return [torch.nn.Sequential(layer, torch.nn.Tanh()) for layer in layers]


def loss_of(output, target):
    return ((output - target) ** 2).mean()


class Pair:
    """The model cut over the ranks by a CSV file, and the whole of it beside on every rank."""

    def __init__(self, path, rank):
        self.rows = rows(path)
        held = stages_of(self.rows[rank])
        count = 1 + max(stages_of(sum(self.rows, [])))
        self.micros = sum(action.startswith("0F") for action in sum(self.rows, []))
        self.whole = torch.nn.Sequential(*make_model(count))
        self.mine = dict(zip(range(count), make_model(count)))
        stages = [PipelineStage(self.mine[i], i, count, torch.device("cpu")) for i in held]
        self.held, self.first, self.last = held, 0 in held, count - 1 in held
        self.runtime = RUNTIME(stages, self.micros, loss_fn=loss_of)
        self.runtime._load_csv(str(path), format="compute_only")

    def step_cut(self, inputs, target):
        losses = []
        self.runtime.step(*([inputs] if self.first else []),
                          **({"target": target, "losses": losses} if self.last else {}))
        return torch.stack(losses).mean().item() if losses else None

    def compare_gradients(self, step):
        for stage in self.held:
            for ours, one in zip(self.mine[stage].parameters(), self.whole[stage].parameters()):
                error = (ours.grad - one.grad).abs().max().item()
                assert one.grad.abs().max() > 0
                assert error < TOLERANCE, f"step {step}, stage {stage}: gradients differ by {error}"

    def train(self):
        models = [self.whole, *(self.mine[stage] for stage in self.held)]
        optimizer = torch.optim.SGD([p for m in models for p in m.parameters()], lr=0.5)
        generator = torch.Generator().manual_seed(2)
        shape = (self.micros * BATCH_OF_MICRO, WIDTH)
        inputs, target = (torch.randn(shape, dtype=torch.float64, generator=generator).tanh()
                          for _ in range(2))
        seen = []
        for step in range(STEPS):
            optimizer.zero_grad()
            cut = self.step_cut(inputs, target)
            one = loss_of(self.whole(inputs), target)
            one.backward()
            assert cut is None or abs(cut - one.item()) < TOLERANCE, f"loss {cut}, not {one}"
            self.compare_gradients(step)
            optimizer.step()
            seen.append(one.item())
        assert seen == sorted(seen, reverse=True), f"the loss does not fall: {seen}"


def train_ours(program, folder, rank, ranks):
    for name in ("gpipe", "1f1b"):
        path = folder / f"{name}_{ranks}.csv"
        if rank == 0:
            chimera(program, "show", name, "--stages", ranks, "--micros", 2 * ranks,
                    "--format", "csv", "-o", path)
        dist.barrier()
        Pair(path, rank).train()


def dump(kind, path, rank, ranks, **options):
    """A schedule that torch generates, two stages a rank."""
    count = 2 * ranks
    held = (rank, count - 1 - rank if kind is theirs.ScheduleZBVZeroBubble else rank + ranks)
    model = make_model(count)
    stages = [PipelineStage(model[i], i, count, torch.device("cpu")) for i in held]
    kind(stages, 2 * ranks, loss_fn=loss_of)._dump_csv(str(path), **options)


# With the fewest ranks on which `verify` proves them for as many micro-batches as here; None: on
# none. Where a rank sends both activations and gradients to another, `verify` wants them sent in the
# order in which they are used; torch's runtime, which posts its receives early, does not.
THEIRS = {
    "ScheduleInterleaved1F1B": 2,
    "ScheduleInterleavedZeroBubble": 3,
    "ScheduleZBVZeroBubble": None,
}


def train_theirs(program, folder, rank, ranks):
    for name, proved_from in THEIRS.items():
        dumped = folder / f"{name}_{ranks}.csv"
        exported = folder / f"{name}_{ranks}_again.csv"
        if rank == 0:
            dump(getattr(theirs, name), dumped, rank, ranks, format="compute_only")
            if proved_from is not None and ranks >= proved_from:
                said = chimera(program, "verify", dumped)
                assert f"{dumped.stem}: {2 * ranks} stages on {ranks} workers, 1 pipe" in said, said
                assert "no violation" in said, said
            chimera(program, "show", dumped, "--format", "csv", "-o", exported)
            assert rows(dumped) == rows(exported)
        dist.barrier()
        Pair(exported, rank).train()


def refuse_the_rest(program, folder):
    """Communication is no part of a schedule, and the CSV has one pipe."""
    path = folder / "comms.csv"
    dump(theirs.ScheduleInterleaved1F1B, path, 0, 2, format="compute_comms")
    assert "compute_only" in chimera(program, "verify", path, code=2)
    said = chimera(program, "show", "chimera", "--stages", 2, "--micros", 2, "--format", "csv",
                   code=2)
    assert "one pipe" in said, said


def run_rank(rank, ranks, program, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting_{ranks}", rank=rank,
                            world_size=ranks, timeout=datetime.timedelta(seconds=30))
    train_ours(program, folder, rank, ranks)
    train_theirs(program, folder, rank, ranks)
    if rank == 0 and ranks == 2:
        refuse_the_rest(program, folder)
    dist.destroy_process_group()


def main():
    program = os.path.abspath(sys.argv[1])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory(prefix="chimera-exchange-") as folder:
        for ranks in (2, 4):
            mp.start_processes(run_rank, args=(ranks, program, Path(folder)), nprocs=ranks,
                               start_method="fork")
    print("exchanged with torch", torch.__version__)


if __name__ == "__main__":
    main()
