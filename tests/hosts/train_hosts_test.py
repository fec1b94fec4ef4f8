#!/usr/bin/env python3
"""Trains over several hosts (hosts.py), as one machine does: the same numbers over a slow network,
and an end with a name when a cable is cut.

usage: train_hosts_test.py PROGRAM. Exits with 77 (skipped) and the reason where hosts cannot be made.
"""

import subprocess
import sys
import time
import unittest
from pathlib import Path

from hosts import Hosts, Unavailable

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from tiny_run import TinyRunTest

LONG_S = 180  # a wait that ends only with a fault
LIMIT_S = 5


class TrainHostsTest(TinyRunTest):
    def configure_steps(self, steps):
        self.configure(schedule="1f1b", steps=steps, limit_s=LIMIT_S)

    # Reported cases (docs/cases.md): H16.
    def test_a_slow_network_changes_no_number(self):
        self.configure_steps(5)
        threads, hosts_log = self.folder / "threads", self.folder / "hosts"
        subprocess.run([PROGRAM, "train", self.config, "--log", threads], check=True,
                       timeout=LONG_S, stdout=subprocess.DEVNULL)
        with Hosts(2, latency_ms=2, loss_percent=0.1) as hosts:
            command = [PROGRAM, "train", self.config, "--log", hosts_log]
            process = hosts.mpirun(2, [str(word) for word in command], stdout=subprocess.PIPE,
                                   text=True)
            output, _ = process.communicate(timeout=LONG_S)
        self.assertEqual(process.returncode, 0, output)
        self.assertEqual(self.losses(threads), self.losses(hosts_log))

    def test_a_cut_cable_ends_the_run_with_a_name(self):
        self.configure_steps(1_000_000)
        log = self.folder / "log"
        with Hosts(2) as hosts, open(self.folder / "errors", "w+") as errors:
            command = [PROGRAM, "train", self.config, "--log", log]
            process = hosts.mpirun(2, [str(word) for word in command], stdout=subprocess.DEVNULL,
                                   stderr=errors)
            end_s = time.monotonic() + LONG_S
            while (not log.exists() or log.stat().st_size == 0) and time.monotonic() < end_s:
                self.assertIsNone(process.poll())
                time.sleep(0.05)  # asks again; waits for no time to pass
            hosts.cut(1)
            cut_s = time.monotonic()
            said = ""
            while "chimera: error: " not in said and time.monotonic() < cut_s + LONG_S:
                time.sleep(0.05)
                said = (self.folder / "errors").read_text()
            took_s = time.monotonic() - cut_s
            process.kill()  # it waits for the host that it cannot reach
            process.wait()
        self.assertIn("no sign of life", said)
        self.assertRegex(said, r"rank [23] \(process \d+ on host hostB\)")
        self.assertLess(took_s, LIMIT_S + 3)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    try:
        Hosts.refuse_if_unable()
    except Unavailable as why:
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main()
