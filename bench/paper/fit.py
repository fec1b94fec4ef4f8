#!/usr/bin/env python3
"""Fits the constants of the preset piz-daint and GPT-2's efficiency, and prints them.

From the points of figures 14 and 15 that figures.csv marks as fitted: all six schemes alike, on the
two smaller machines of each model; least squares of the logarithm of simulated over measured. No
constant knows a scheme. What is held (HELD) is set to 0 or a usual value, for the fit finds nothing
in it: left free, it goes to its bound. Needs scipy (pip install scipy) and the built program
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
HELD = {"action_s": 0, "p2p_latency_s": 2e-5}
START = {
    "time_scale": 1.4,
    "p2p_bytes_per_s": 2e9,
    "all_reduce_latency_s": 5e-4,
    "all_reduce_bytes_per_s": 2e9,
    "gpt2_efficiency": 0.9,
}

MACHINE = """format = "chimera-machine-1"
name = "fit"
source = "fit.py"
nodes = 5704
devices_per_node = 1
memory_gb = 16
reserved_gb = 0.25
time_scale = {time_scale}
action_s = {action_s}
all_reduce_by = "{by}"
all_reduces_at_once = {at_once}
[p2p]
latency_s = {p2p_latency_s}
bytes_per_s = {p2p_bytes_per_s}
[all_reduce]
latency_s = {all_reduce_latency_s}
bytes_per_s = {all_reduce_bytes_per_s}
"""


def simulate(constants, options, scratch):
    """The rows of paper_figures with these constants."""
    (scratch / "machine.toml").write_text(
        MACHINE.format(**constants, by=options.by, at_once=options.at_once))
    subprocess.run(
        ["python3", FOLDER / "profiles.py", "--folder", scratch,
         "--gpt2-efficiency", str(constants["gpt2_efficiency"])], check=True)
    output = subprocess.run(
        [options.program, "--folder", scratch, "--machine", scratch / "machine.toml",
         "--figures", "14,15"], check=True, capture_output=True, text=True).stdout
    return list(csv.DictReader(io.StringIO(output)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=FOLDER.parents[1] / "build/core/paper_figures")
    parser.add_argument("--by", default="ring", help="all-reduces by: ring or halving")
    parser.add_argument("--at-once", type=int, default=2, help="all-reduces of a worker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        shutil.copy(FOLDER / "figures.csv", scratch)

        def constants(logs):
            return HELD | {key: math.exp(log) for key, log in zip(START, logs)}

        def residuals(logs):
            rows = simulate(constants(logs), options, scratch)
            return [math.log(float(row["simulated"]) / float(row["paper"]))
                    for row in rows if row["use"] == "fitted"]

        fit = least_squares(residuals, [math.log(value) for value in START.values()],
                            diff_step=1e-3, x_scale="jac")
        for key, value in constants(fit.x).items():
            print(f"{key} = {value:.4g}")
        rms = math.sqrt(sum(value**2 for value in fit.fun) / len(fit.fun))
        print(f"root mean square of {len(fit.fun)} errors: {100 * rms:.2f} %")
        for row in simulate(constants(fit.x), options, scratch):
            print(*(row[key] for key in ("figure", "scheme", "nodes", "use", "paper", "simulated",
                                         "error_percent")))


if __name__ == "__main__":
    main()
