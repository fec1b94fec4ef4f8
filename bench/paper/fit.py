#!/usr/bin/env python3
"""Fits the constants of the preset piz-daint and of profiles.py, and prints them.

Throughput: from the points of figures 14 and 15 that figures.csv marks as fitted: all six schemes
alike, on the two smaller machines of each model. Memory: from DAPPLE's bars of figure 9; what is
used is rounded up from there, so that DAPPLE is out of memory where figure 1 says so. Least
squares of the logarithm of simulated over measured. No constant knows a scheme. What is held (HELD)
is set to 0 or a usual value, for the fit finds nothing in it. Then prints what the constants say of
figures 14, 15 and 19. With --leave-one-out: fits without each scheme in turn, and prints by how
much that scheme's points are missed. Needs scipy (pip install scipy) and the built program
build/core/paper_figures.
"""

import argparse
import csv
import io
import math
import pathlib
import shutil
import subprocess
import tempfile

from scipy.optimize import least_squares

FOLDER = pathlib.Path(__file__).resolve().parent
SCHEMES = ("Chimera", "PipeDream-2BW", "DAPPLE", "GPipe", "PipeDream", "GEMS")
HELD = {"action_s": 0, "p2p_latency_s": 2e-5, "p2p_bytes_per_s": 1e10}
# What an all-reduce costs beside its bytes: by recursive doubling a start, else each of its hops:
# what is fitted, from which value, and what is held at which.
BESIDE = {
    "recursive-doubling": ("all_reduce_start_s", 0.1, "all_reduce_latency_s", 2e-5),
    "ring": ("all_reduce_latency_s", 1e-3, "all_reduce_start_s", 0),
    "rabenseifner": ("all_reduce_latency_s", 1e-2, "all_reduce_start_s", 0),
}
SPEED = {"time_scale": 1.4, "all_reduce_bytes_per_s": 4e9, "gpt2_efficiency": 0.9}
MEMORY = {"reserved_gb": 0.3, "activations": 1.4, "gpt2_activations": 60.0}

MACHINE = """format = "chimera-machine-1"
name = "fit"
source = "fit.py"
nodes = 5704
devices_per_node = 1
reserved_gb = {reserved_gb}
time_scale = {time_scale}
action_s = {action_s}
all_reduce_by = "{by}"
all_reduces_at_once = {at_once}
all_reduce_start_s = {all_reduce_start_s}
[p2p]
latency_s = {p2p_latency_s}
bytes_per_s = {p2p_bytes_per_s}
[all_reduce]
latency_s = {all_reduce_latency_s}
bytes_per_s = {all_reduce_bytes_per_s}
"""


class Simulation:
    def __init__(self, options, scratch):
        self.options = options
        self.scratch = pathlib.Path(scratch)
        shutil.copy(FOLDER / "figures.csv", scratch)

    def rows(self, figures, constants):
        """The rows of paper_figures with these constants, and no limit of memory."""
        machine = self.scratch / "machine.toml"
        machine.write_text(MACHINE.format(**constants, by=self.options.by,
                                          at_once=self.options.at_once))
        words = [f"--{key.replace('_', '-')}={constants[key]}"
                 for key in ("gpt2_efficiency", "activations", "gpt2_activations")]
        subprocess.run(["python3", FOLDER / "profiles.py", "--folder", self.scratch, *words],
                       check=True)
        output = subprocess.run(
            [self.options.program, "--folder", self.scratch, "--machine", machine,
             "--figures", figures], check=True, capture_output=True, text=True).stdout
        return list(csv.DictReader(io.StringIO(output)))

    def fit(self, figures, quantity, start, held, without=None):
        """`held`, and what of `start` fits best the figures' points that are marked as fitted;
        and the root mean square error of the points of the scheme `without`, which it does not
        see."""
        def constants(logs):
            return held | {key: math.exp(log) for key, log in zip(start, logs)}

        def residuals(logs, seen=lambda scheme: scheme != without):
            return [math.log(float(row["simulated"]) / float(row["paper"]))
                    for row in self.rows(figures, constants(logs))
                    if row["use"] == "fitted" and row["quantity"] == quantity
                    and seen(row["scheme"])]

        found = least_squares(residuals, [math.log(value) for value in start.values()],
                              diff_step=1e-3, x_scale="jac")
        fitted = constants(found.x)
        print(*(f"{key} = {fitted[key]:.4g}" for key in start), sep=", ")
        print(f"figures {figures}: root mean square of {len(found.fun)} errors "
              f"{100 * rms(found.fun):.2f} %")
        return fitted, residuals(found.x, lambda scheme: scheme == without)


def rms(errors):
    return math.sqrt(sum(error**2 for error in errors) / len(errors))


def print_rows(rows):
    """Every row, and how many throughputs of the largest machines are within 10 %."""
    for row in rows:
        print(*(row[key] for key in ("figure", "scheme", "nodes", "use", "paper", "simulated",
                                     "error_percent")))
    for nodes in ("64", "2048"):
        errors = [float(row["error_percent"]) for row in rows
                  if row["nodes"] == nodes and row["figure"] != "19"]
        print(f"on {nodes} nodes {sum(abs(error) <= 10 for error in errors)} of {len(errors)} "
              "within 10 %")


def leave_one_out(fit):
    missed = []
    for scheme in SCHEMES:
        errors = fit(scheme)[1]
        print(f"without {scheme}: its {len(errors)} points are missed by {100 * rms(errors):.1f} %")
        missed += errors
    print(f"all {len(missed)}: {100 * rms(missed):.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=FOLDER.parents[1] / "build/core/paper_figures")
    parser.add_argument("--by", default="recursive-doubling", choices=BESIDE, help="all-reduces")
    parser.add_argument("--at-once", type=int, default=1, help="all-reduces of a worker")
    parser.add_argument("--leave-one-out", action="store_true", help="fit without each scheme")
    options = parser.parse_args()
    free, begin, fixed, value = BESIDE[options.by]
    with tempfile.TemporaryDirectory() as scratch:
        simulation = Simulation(options, scratch)

        def fit(without=None):
            return simulation.fit("14,15", "throughput", SPEED | {free: begin},
                                  HELD | MEMORY | {fixed: value}, without)

        if options.leave_one_out:
            leave_one_out(fit)
            return
        constants, _ = fit()
        print_rows(simulation.rows("14,15,19", constants))
        simulation.fit("9", "peak_gb", MEMORY, constants)


if __name__ == "__main__":
    main()
