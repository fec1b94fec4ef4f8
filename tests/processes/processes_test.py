#!/usr/bin/env python3
"""Runs the program as many processes, as a user does: what it refuses before it starts, who reads
the text, and how it is started again. tests/faults has what breaks on the way.

usage: processes_test.py PROGRAM. Exits with 77 (skipped) and the reason where there is no mpirun.
"""

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from tiny_run import TinyRunTest

LONG_S = 120  # a wait that ends only with a fault
IN_OPEN = 0x20

class OpensOf:
    """Counts how often a file is opened while in scope (inotify)."""

    def __init__(self, path):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.path = str(path).encode()

    def __enter__(self):
        self.queue = self.libc.inotify_init1(os.O_NONBLOCK)
        assert self.libc.inotify_add_watch(self.queue, self.path, IN_OPEN) >= 0
        return self

    def count(self):
        opens = 0
        while True:
            try:
                data = os.read(self.queue, 65536)
            except BlockingIOError:
                return opens
            while data:
                _, _, _, length = struct.unpack_from("iIII", data)
                opens += 1
                data = data[16 + length :]

    def __exit__(self, *_):
        os.close(self.queue)


class ProcessesTest(TinyRunTest):
    def setUp(self):
        super().setUp()
        self.configure(schedule="chimera", steps=6, limit_s=10)

    def run_command(self, *command):
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                           OMPI_MCA_rmaps_base_oversubscribe="1")
        done = subprocess.run([str(word) for word in command], env=environment, timeout=LONG_S,
                              capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def mpirun(self, ranks, *words, mode="train"):
        return self.run_command("mpirun", "-q", "-n", ranks, PROGRAM, mode, self.config, *words)

    def threads(self, *words):
        return self.run_command(PROGRAM, "train", self.config, *words)

    def expect_refused(self, result, *says):
        code, _, errors = result
        self.assertNotEqual(code, 0)
        lines = [line for line in errors.splitlines() if "chimera: error: " in line]
        texts = {line.split("chimera: error: ")[1] for line in lines}
        self.assertEqual(len(texts), 1, errors)  # on every rank the same
        for words in says:
            self.assertIn(words, errors)

    def test_processes_give_what_threads_give(self):
        threads, processes = self.folder / "threads", self.folder / "processes"
        self.assertEqual(self.threads("--log", threads)[0], 0)
        code, output, errors = self.mpirun(4, "--log", processes)
        self.assertEqual(code, 0, errors)
        self.assertIn("4 over MPI", output)
        self.assertEqual(output.count("model "), 1)  # rank 0 alone speaks
        self.assertEqual(self.losses(threads), self.losses(processes))

    def test_a_profile_measures_the_links_between_processes(self):
        profile = self.folder / "profile.toml"
        words = ["-o", profile, "--repeats", 2, "--micro-batches", "1,2"]
        code, output, errors = self.mpirun(2, *words, mode="profile")
        self.assertEqual(code, 0, errors)
        self.assertEqual(output.count("profile written to "), 1)  # rank 0 alone speaks
        text = profile.read_text()
        for part in ["2 ranks at once, over MPI", "[p2p]", "[all_reduce]", "'block'"]:
            self.assertIn(part, text)
        self.expect_refused(self.mpirun(2, *words, "--ranks", 3, mode="profile"),
                            "--ranks is 3, but mpirun started 2 processes")

    # Reported cases (docs/cases.md): H21.
    def test_too_few_processes_are_refused(self):
        self.expect_refused(self.mpirun(3), "4 ranks", "3 processes were started", "mpirun -n 4")

    def test_threads_under_a_launcher_are_refused(self):
        self.expect_refused(self.mpirun(2, "--set", "pipeline.transport=local"),
                            "mpirun started 2 processes")

    # Reported cases (docs/cases.md): H11.
    def test_ranks_with_other_configurations_are_named(self):
        part = ["-n", 2, PROGRAM, "train", self.config]
        result = self.run_command("mpirun", "-q", *part, ":", *part, "--set", "model.dtype=fp32")
        self.expect_refused(result, "model.dtype = 'fp32', but rank 0 has 'fp64'")

    # Reported cases (docs/cases.md): M10.
    def test_only_ranks_with_an_end_stage_open_the_text(self):
        opens = {}
        for stages in [2, 4]:
            with OpensOf(self.text) as text:
                code, _, errors = self.mpirun(stages, "--set", f"pipeline.stages={stages}", "--set",
                                              "pipeline.width=1")
                self.assertEqual(code, 0, errors)
                opens[stages] = text.count()
        self.assertGreater(opens[2], 0)
        self.assertEqual(opens[4], opens[2])  # the two between the ends open nothing

    def test_a_run_that_is_killed_is_started_again(self):
        whole, parts = self.folder / "whole", self.folder / "parts"
        self.assertEqual(self.mpirun(4, "--log", whole)[0], 0)
        # On the way the state is written while others wait: what is to be killed comes after.
        checkpoints = ["--set", "train.checkpoint_every=1", "--set",
                       f"train.checkpoint_folder={self.folder / 'checkpoints'}"]
        code, output, errors = self.threads(
            *checkpoints, "--restarts", 2, "--launch", "mpirun -q -n 4", "--fault",
            "kill@rank=1,step=4,action=1", "--log", parts)
        self.assertEqual(code, 0, errors)
        self.assertIn("run 1 of at most 3 failed with exit code 137; starting again from the last "
                      "good checkpoint", errors)
        self.assertIn("going on after step ", output)
        self.assertEqual(self.losses(whole), self.losses(parts))

    def test_all_end_with_the_code_of_the_rank_whose_error_it_was(self):
        for _ in range(3):  # mpirun hands on the code of whichever ended first
            result = self.mpirun(4, "--set", f"data.text={self.folder / 'none'}")
            self.expect_refused(result, "none")
            self.assertEqual(result[0], 3)

    def test_a_run_that_is_done_only_ends(self):
        checkpoints = ["--set", "train.checkpoint_every=6", "--set",
                       f"train.checkpoint_folder={self.folder / 'checkpoints'}"]
        self.assertEqual(self.mpirun(4, *checkpoints)[0], 0)
        code, output, errors = self.mpirun(4, *checkpoints, "--resume", "latest", "--save",
                                           self.folder / "saved")
        self.assertEqual(code, 0, errors)
        self.assertIn("all steps are done already", output)
        self.assertTrue((self.folder / "saved" / "model.safetensors").exists())

    def test_one_run_at_a_time_has_a_checkpoint_folder(self):
        checkpoints = ["--set", "train.checkpoint_every=1000", "--set",
                       f"train.checkpoint_folder={self.folder / 'checkpoints'}"]
        first = subprocess.Popen([PROGRAM, "train", self.config, *checkpoints, "--set",
                                  "train.steps=1000000"], stdout=subprocess.PIPE, text=True)
        while "step 1/" not in first.stdout.readline():
            self.assertIsNone(first.poll())
        result = self.threads(*checkpoints, "--resume", "latest")
        first.kill()
        first.communicate()
        self.assertNotEqual(result[0], 0)
        self.assertRegex(result[2], "another run writes its checkpoints|has no checkpoint")

    def test_restarts_are_refused_where_they_cannot_help(self):
        self.expect_refused(self.threads("--restarts", 2), "train.checkpoint_every is 0")
        self.expect_refused(self.mpirun(4, "--restarts", 2, "--set", "train.checkpoint_every=1"),
                            "--launch")
        self.expect_refused(self.threads("--launch", "mpirun"), "--restarts")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    if not shutil.which("mpirun"):
        print("skipped: there is no mpirun")
        sys.exit(77)
    unittest.main()
