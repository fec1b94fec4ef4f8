"""A training run of a moment, for tests that start the program as users do: a text whose lines tell
each other apart, so that losses depend on what is read, and a configuration of it in fp64."""

import json
import shutil
import tempfile
import unittest
from pathlib import Path

CONFIG = """
[model]
kind = "gpt2"
layers = 4
hidden = 16
heads = 2
sequence = 16
dtype = "fp64"
[data]
text = "{text}"
[train]
steps = {steps}
batch = 8
[pipeline]
schedule = "{schedule}"
stages = 2
width = 2
micro_batch = 1
[limits]
seconds = {limit_s}
"""


class TinyRunTest(unittest.TestCase):
    """A folder of its own for each test, with the text and its configuration; gone after it."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="chimera-tiny-run-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.text = self.folder / "text"
        self.text.write_text("".join(f"{i} and {i * i % 97}\n" for i in range(2000)))
        self.config = self.folder / "config.toml"

    def configure(self, **values):
        self.config.write_text(CONFIG.format(text=self.text, **values))

    def losses(self, log):
        steps = [json.loads(line) for line in log.read_text().splitlines()]
        return {step["step"]: step["loss"] for step in steps}
