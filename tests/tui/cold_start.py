"""A first start with nothing compiled yet: a task like pix2pix's, and what the screen shows until its first step.

python tests/tui/cold_start.py FOLDER       records it, and prints what stood there, and since when
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent))

from recorded_terminal import Moment, record

from trainer.rundir import RunPaths, read_lock

PATIENCE = 60.0
"""Seconds for a worker that was aborted to end."""
ROOT = Path(__file__).parents[2]
TASK = """\
import numpy as np

from trainer import engine
from trainer.datasets import ArrayDataset, Loader
from trainer.engine import nn
from trainer.learner import DataSplits, Task
from trainer.metrics import Mean


class Unet(Task):
    \"\"\"A U-Net whose innermost transposed convolutions have 1,024 channels, as pix2pix's have.\"\"\"

    def data(self):
        pictures = np.random.default_rng(0).standard_normal((64, 3, 16, 16)).astype(np.float32)
        data = ArrayDataset({"image": pictures, "target": pictures[::-1].copy()})
        return DataSplits(train=Loader(data, 16), valid=Loader(data, 16))

    def build(self):
        self.down = [nn.Conv2d(a, b, 4, 2, 1) for a, b in ((3, 64), (64, 512), (512, 512))]
        self.up = [nn.ConvTranspose2d(a, b, 4, 2, 1) for a, b in ((512, 512), (1024, 64), (128, 3))]
        self.net = nn.Sequential(*self.down, *self.up)
        self.optimizer = self.optimizer_for(self.net)

    def train_step(self, batch):
        metrics = self.valid_step(batch)
        self.optimizer.minimize(metrics["loss"].value)
        return metrics

    def valid_step(self, batch):
        kept, x = [], batch["image"]
        for layer in self.down:
            x = engine.maximum(layer(x), 0.0)
            kept.append(x)
        for layer, beside in zip(self.up, (kept[1], kept[0], None)):
            x = layer(x)
            x = x if beside is None else engine.concat([engine.maximum(x, 0.0), beside], axis=1)
        return {"loss": Mean(engine.mean(abs(x - batch["target"])))}
"""
CONFIG = """\
task: ./task.py:Unet
optimizer: {name: adam, learning_rate: 0.0002}
train: {epochs: 1, log_every_steps: 1}
"""
FIRST_STEP = re.compile(r"step [1-9]")
ACTIVE = re.compile(r"● (?P<name>\w+) [^\n]*?(?P<clock>\d+(?:\.\d+)? m?s|\d+:\d\d(?:\.\d)?) *(?:│|$)", re.MULTILINE)
COMPILED = re.compile(r"compile +(\d+)/\d+")
"""A phase that goes on, with its clock, as the overview's panel has it."""


def record_start(folder: Path, *words: str) -> list[Moment]:
    """The screens of `trainer run` until its first step, with an empty cache of kernels; it is aborted then."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.py").write_text(TASK)
    (folder / "config.yaml").write_text(CONFIG)
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "SSH_CONNECTION")}
    environment |= {
        "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT),
        "TRAINER_CACHE_DIR": str(folder / "cache"),
    }  # fmt: skip
    command = [sys.executable, "-P", "-m", "trainer.cli", "run", *(words or ("config.yaml",)), "--name", "cold"]
    moments = record(command, folder, environment, FIRST_STEP, last_keys=b"xaq")
    owner = read_lock(RunPaths(folder / "runs" / "cold"))
    if owner is not None:  # its worker would still compile beside whatever is recorded next
        with suppress(psutil.NoSuchProcess):
            psutil.Process(owner.pid).wait(PATIENCE)
    return moments


def running_phases(text: str) -> list[tuple[str, float]]:
    """The phases in progress, and their clocks in seconds; the first is their parent, the setup."""
    return [(found["name"], _seconds(found["clock"])) for found in ACTIVE.finditer(phases_in(text))]


def _seconds(clock: str) -> float:
    if ":" in clock:
        minutes, _, seconds = clock.partition(":")
        return 60 * float(minutes) + float(seconds)
    number, unit = clock.split()
    return float(number) / (1000 if unit == "ms" else 1)


def phases_in(text: str) -> str:
    """What the phases' panel says: the part of the screen that is looked at."""
    lines = text.splitlines()
    end = next((number for number, line in enumerate(lines) if line.startswith("╰")), len(lines))
    return "\n".join(line[1:].partition("│")[0] for line in lines[:end] if line.startswith("│"))


def longest_silence(moments: list[Moment]) -> tuple[float, Moment]:
    """The longest time, in seconds, for which neither count nor clock of a phase moved, and what stood there then.

    From the first frame, which has the panel, to the first step.
    """
    told = [moment for moment in moments if "phases" in moment.text]
    changes = [told[0]]
    for moment in told[1:]:
        if phases_in(moment.text) != phases_in(changes[-1].text):
            changes.append(moment)
    ends = [moment.time for moment in changes[1:]] + [told[-1].time]
    return max((end - moment.time, moment) for moment, end in zip(changes, ends, strict=True))


if __name__ == "__main__":
    recorded = record_start(Path(sys.argv[1]), *sys.argv[2:])
    seen = ""
    for moment in recorded:
        if phases_in(moment.text) != seen:
            seen = phases_in(moment.text)
            print(f"{moment.time:7.3f} s  " + " | ".join(" ".join(line.split()) for line in seen.splitlines()[:8]))
    seconds, at = longest_silence(recorded)
    print(f"the longest silence: {seconds:.3f} s, from {at.time:.3f} s on")
