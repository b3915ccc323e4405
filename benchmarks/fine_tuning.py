"""Compares fine-tuning from photos of clothes with training from scratch, on 20 images per class of Fashion-MNIST.

python benchmarks/fine_tuning.py [gain processor_time] --data FOLDER [--weights RUN] [--json] [--rounds N]

FOLDER has Fashion-MNIST's IDX files, or a part of them; it must hold 20 images per class and others for testing (at
most 1,000 are used). The recipe `clothes` trains the weights first, on its own photos (grayscale, 32x32 pixels), unless
RUN is a run of it. A round is one seed: it draws the 20 images, the initial values and the order of the batches. Both
trainings are `trainer run` with the same network, images and number of steps, without selection of the best checkpoint.
They differ in the initial weights and in the learning rate, which was chosen for each on other images.

`gain` is the difference of the two accuracies in percentage points. `processor_time` is the processor time of all
commands in seconds, which other processes disturb less than wall time; the two sides may differ by 5 %.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import itertools
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import Figure, checkout_environment, run_figures
from PIL import Image

from trainer import open_run
from trainer.datasets.idx import read_idx
from trainer.rundir import EndEvent

IMAGES_PER_CLASS, MOST_TESTED, STEPS, SEEDS = 20, 1000, 150, 3
SCRATCH = {"optimizer": {"learning_rate": 0.005}}
TUNED = {"optimizer": {"learning_rate": 0.002}}
LEAST_GAIN, LEAST_RATIO = 5.0, 0.95
NETWORK: dict[str, Any] = {
    "extends": "clothes",
    "data": {"batch_size": 32, "transforms": {
        "train": [
            {"name": "random_resized_crop", "size": 32, "scale": [0.3, 1.0], "ratio": [0.6, 1.4]},
            {"name": "horizontal_flip"}, {"name": "grayscale"},
            {"name": "color_jitter", "brightness": 0.4, "contrast": 0.4, "probability": 0.8},
            {"name": "one_hot", "smoothing": 0.1},
        ],
        "valid": [{"name": "grayscale"}, {"name": "resize", "size": 32}],
    }},
    "options": {"stem": "small"},
}  # fmt: skip
BASE = {**NETWORK, "train": {"epochs": 30}}
FEW = {
    **NETWORK, "train": {"epochs": None, "steps": STEPS}, "schedule": {"warmup_fraction": 0.1},
    "validate": {"every_steps": STEPS}, "checkpoint": {"best": None}, "autotune": {"mode": "off"},
}  # fmt: skip


@functools.cache
def folder() -> Path:
    """A temporary folder."""
    made = Path(tempfile.mkdtemp(prefix="fine-tuning-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def train(name: str, config: dict[str, Any], *overrides: str) -> tuple[Path, float]:
    """Trains with a config; returns the run directory and the seconds of processor time.

    Raises:
        RuntimeError: the training failed.
    """
    file, run = folder() / f"{name}.yaml", folder() / name
    file.write_text(json.dumps(config), encoding="utf-8")
    command = [sys.executable, "-P", "-m", "trainer.cli", "run", str(file), "--plain", f"--run-dir={run}", *overrides]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = checkout_environment(TRAINER_CACHE_DIR=str(folder() / f"cache-{name}"))  # each compiles its kernels
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return run, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def accuracy(run: Path) -> float:
    """The accuracy of the averaged weights after the last step, in percent."""
    end = open_run(run).end
    assert isinstance(end, EndEvent)
    return 100 * float(end.metrics["valid/ema/accuracy"])


def write_images(data: Path, seed: int) -> Path:
    """Writes 20 images per class for training, and others for validation; returns their folder."""
    arrays = {kind: [read_idx(file) for file in sorted(data.glob(f"*-{kind}-idx*"))] for kind in ("images", "labels")}
    images, labels = (np.concatenate(each) for each in arrays.values())
    order = np.random.default_rng(seed).permutation(len(images))
    of_classes = [order[labels[order] == label] for label in np.unique(labels)]
    tested = np.concatenate([rows[IMAGES_PER_CLASS:] for rows in of_classes])[:: max(1, len(images) // MOST_TESTED)]
    made = folder() / f"images-{seed}"
    for split, rows in (("train", np.concatenate([rows[:IMAGES_PER_CLASS] for rows in of_classes])), ("val", tested)):
        for row in rows:
            place = made / split / str(labels[row])
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(images[row]).save(place / f"{row:05}.png")
    return made


class Comparison:
    """The two trainings of each seed, run on first use."""

    def __init__(self, data: Path, weights: Path | None) -> None:
        self._data, self._weights = data, weights

    @functools.cache  # noqa: B019 - one object
    def base(self) -> Path:
        """Returns the run whose weights are fine-tuned."""
        return (self._weights or train("base", BASE)[0]).absolute()

    @functools.cache  # noqa: B019
    def of(self, seed: int) -> tuple[float, float, float, float]:
        """Returns the accuracy and processor seconds from scratch, and those with fine-tuning."""
        words = (f"data.root={write_images(self._data, seed)}", f"seed={seed}")
        weights = {"weights": str(self.base()), "exclude": ["fc.*"]}  # its classes differ
        scratch, scratch_seconds = train(f"scratch-{seed}", {**FEW, **SCRATCH}, *words)
        tuned, tuned_seconds = train(f"tuned-{seed}", {**FEW, **TUNED, "model": weights}, *words)
        found = accuracy(scratch), scratch_seconds, accuracy(tuned), tuned_seconds
        print("seed {}: from scratch {:.1f} % in {:.0f} s, fine-tuned {:.1f} % in {:.0f} s".format(seed, *found))
        return found

    def gain(self, seeds: Iterator[int]) -> float:
        """Returns the gain in accuracy by fine-tuning, in percentage points."""
        scratch, _, tuned, _ = self.of(next(seeds))
        return tuned - scratch

    def seconds(self, which: int) -> float:
        """The processor time of all seeds, from scratch (1) or with fine-tuning (3)."""
        return sum(self.of(seed)[which] for seed in range(SEEDS))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", type=Path)
    own, others = parser.parse_known_args()
    compared = Comparison(own.data, own.weights)
    raise SystemExit(run_figures([
        Figure("gain", functools.partial(compared.gain, itertools.count()), bar=LEAST_GAIN, better="higher",
               unit="points", rounds=SEEDS, is_timing=False),
        Figure("processor_time", lambda: compared.seconds(3), lambda _: compared.seconds(1), bar=LEAST_RATIO, unit="s",
               needs_peer_python=False, rounds=1, is_timing=False),
    ], others))  # fmt: skip
