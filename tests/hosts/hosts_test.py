#!/usr/bin/env python3
"""Shows that hosts.py makes hosts, with a bare MPI program: names and addresses of their own, TCP
between them, latency, loss, a cable that is cut and mended, and nothing left however it ends.

Exits with 77 (skipped) and the reason where hosts cannot be made.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import hosts as hosts_module
from hosts import Hosts, Unavailable, namespaces

HERE = Path(__file__).resolve().parent
LONG_S = 120  # a wait that ends only with a fault


def run(hosts, *command, ranks_per_host=1):
    process = hosts.mpirun(ranks_per_host, command, stdout=subprocess.PIPE, text=True)
    output, _ = process.communicate(timeout=LONG_S)
    return process.returncode, output


def round_trip_s(output):
    return float(re.search(r"right, round trip (\S+) s", output)[1])


def rounds_until(stream, quiet_s, rounds=10**9):
    """Counts lines until there have been enough, or none came for so long."""
    seen = 0
    while seen < rounds and select.select([stream], [], [], quiet_s)[0]:
        seen += os.read(stream.fileno(), 65536).count(b"round ")
    return seen


class HostsTest(unittest.TestCase):
    def leaves_nothing(self, owner):
        self.assertEqual(namespaces(str(owner)), [])
        links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True).stdout
        self.assertNotIn(f"{hosts_module.PREFIX}{owner}", links)
        etc = Path("/etc/netns")
        left = [p.name for p in etc.iterdir()] if etc.exists() else []
        self.assertFalse([name for name in left if name.startswith(f"chi{owner}h")])

    def test_ranks_run_on_hosts_of_their_own(self):
        with Hosts(3) as hosts:
            code, output = run(hosts, PING_PONG, 10, 100_000, ranks_per_host=2)
        self.assertEqual(code, 0, output)
        for rank, host in enumerate(["hostA", "hostA", "hostB", "hostB", "hostC", "hostC"]):
            self.assertIn(f"rank {rank} of 6 on {host}\n", output)
        self.leaves_nothing(os.getpid())

    def test_latency_is_added_each_way(self):
        with Hosts(2, latency_ms=20) as hosts:
            code, output = run(hosts, PING_PONG, 10, 10)
        self.assertEqual(code, 0, output)
        self.assertGreaterEqual(round_trip_s(output), 0.040)

    def test_lost_frames_are_sent_again(self):
        with Hosts(2, loss_percent=1) as hosts:
            code, output = run(hosts, PING_PONG, 20, 50_000)
        self.assertEqual(code, 0, output)

    def test_a_cut_cable_stops_all_and_a_mended_one_lets_them_go_on(self):
        for latency_ms in (0, 1):  # bridge and switch
            with Hosts(2, latency_ms=latency_ms) as hosts:
                process = hosts.mpirun(1, [PING_PONG, 10**9, 10], stdout=subprocess.PIPE)
                self.assertEqual(rounds_until(process.stdout, LONG_S, 20) >= 20, True)
                hosts.cut(1)
                rounds_until(process.stdout, 0.5)  # what was on its way
                self.assertEqual(rounds_until(process.stdout, 0.5), 0)
                hosts.mend(1)
                self.assertGreater(rounds_until(process.stdout, LONG_S, 20), 0)
            process.wait(LONG_S)  # the janitor ended it
            process.stdout.close()
            self.leaves_nothing(os.getpid())

    def killed_midway(self, number, latency_ms):
        program = subprocess.Popen(
            [sys.executable, HERE / "hosts.py", "run", "--hosts", "2", "--latency-ms",
             str(latency_ms), "--", PING_PONG, "1000000000", "10"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertGreater(rounds_until(program.stdout, LONG_S, 5), 0)
        program.send_signal(number)
        program.wait(LONG_S)
        while os.read(program.stdout.fileno(), 65536):
            pass  # ends when the last rank has
        program.stdout.close()
        end_s = time.monotonic() + LONG_S
        while namespaces(str(program.pid)) and time.monotonic() < end_s:
            time.sleep(0.05)  # the janitor is no child of ours: nothing to wait for
        self.leaves_nothing(program.pid)

    def test_nothing_is_left_when_it_is_killed_midway(self):
        self.killed_midway(signal.SIGKILL, 0)
        self.killed_midway(signal.SIGTERM, 1)

    def test_what_a_killed_janitor_left_is_swept_up_by_the_next_run(self):
        child = os.fork()
        if child == 0:
            abandoned = Hosts(2).__enter__()
            shutil.rmtree(abandoned.folder)
            os.kill(abandoned.janitor, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        self.assertEqual(len(namespaces(str(child))), 2)
        hosts_module.sweep()
        self.leaves_nothing(child)

    def test_the_exit_code_is_the_programs(self):
        for latency in ([], ["--latency-ms", "1"]):
            result = subprocess.run([sys.executable, HERE / "hosts.py", "run", *latency, "--",
                                     "sh", "-c", "exit 7"], capture_output=True, timeout=LONG_S)
            self.assertEqual(result.returncode, 7)


def build(folder):
    program = Path(folder, "ping_pong")
    compiler = shutil.which("mpicxx")
    if not compiler:
        raise Unavailable("there is no mpicxx")
    subprocess.run([compiler, "-O1", HERE / "ping_pong.cc", "-o", program], check=True)
    return program


if __name__ == "__main__":
    try:
        with Hosts(1, latency_ms=1):
            pass
        with Hosts(1):
            pass
        with tempfile.TemporaryDirectory() as build_folder:
            PING_PONG = build(build_folder)
            result = unittest.main(exit=False, verbosity=2).result
    except Unavailable as why:
        print(f"skipped: {why}")
        sys.exit(hosts_module.SKIPPED)
    sys.exit(not result.wasSuccessful())
