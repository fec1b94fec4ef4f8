#!/usr/bin/env python3
"""Fits the constants of the preset piz-daint and of profiles.py, and prints them.

Throughput: from the points of figures 14 and 15 that figures.csv marks as fitted: all six schemes
alike, on the two smaller machines of each model. Memory: from DAPPLE's bars of figure 9; what is
used is rounded up from there, so that DAPPLE is out of memory where figure 1 says so. Least
squares of the logarithm of simulated over measured. No constant knows a scheme. What is held (HELD)
is set to 0 or a usual value, for the fit finds nothing in it. Needs scipy (pip install scipy) and
the built program build/core/paper_figures.
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

    def fit(self, figures, quantity, start, held):
        """`held`, and what of `start` fits best the figures' points that are marked as fitted."""
        def constants(logs):
            return held | {key: math.exp(log) for key, log in zip(start, logs)}

        def residuals(logs):
            return [math.log(float(row["simulated"]) / float(row["paper"]))
                    for row in self.rows(figures, constants(logs))
                    if row["use"] == "fitted" and row["quantity"] == quantity]

        found = least_squares(residuals, [math.log(value) for value in start.values()],
                              diff_step=1e-3, x_scale="jac")
        fitted = constants(found.x)
        for key in start:
            print(f"{key} = {fitted[key]:.4g}")
        rms = math.sqrt(sum(value**2 for value in found.fun) / len(found.fun))
        print(f"figures {figures}: root mean square of {len(found.fun)} errors {100 * rms:.2f} %")
        return fitted


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=FOLDER.parents[1] / "build/core/paper_figures")
    parser.add_argument("--by", default="recursive-doubling", choices=BESIDE, help="all-reduces")
    parser.add_argument("--at-once", type=int, default=1, help="all-reduces of a worker")
    options = parser.parse_args()
    free, begin, fixed, value = BESIDE[options.by]
    with tempfile.TemporaryDirectory() as scratch:
        simulation = Simulation(options, scratch)
        constants = simulation.fit("14,15", "throughput",
                                   SPEED | {free: begin}, HELD | MEMORY | {fixed: value})
        for row in simulation.rows("14,15", constants):
            print(*(row[key] for key in ("figure", "scheme", "nodes", "use", "paper", "simulated",
                                         "error_percent")))
        simulation.fit("9", "peak_gb", MEMORY, constants)


if __name__ == "__main__":
    main()
