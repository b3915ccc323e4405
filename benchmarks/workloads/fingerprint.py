"""Prints a digest of the results of a short training of a recipe: two epochs on a tenth of its data, with evaluation.

    fingerprint.py RECIPE

The digest is the SHA-256 of every reported metric, including each step's loss, and of the networks' final states,
including averaged weights. Two checkouts with the same digest compute the same numbers for the recipe.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trainer.configs import load
from trainer.datasets import Dataset, Loader, Subset, loaders
from trainer.learner import Learner
from trainer.learner.task import model_states
from trainer.learner.training import Training
from trainer.rundir import Event, MetricEvent

TENTH = 10
OVERRIDES = (
    "seed=0",
    "data.workers=0",
    "schedule.warmup_fraction=null",
    "train.epochs=2",
    "train.log_every_steps=1",
    "autotune.mode=off",
    "validate.every_epochs=1",
)
RECIPES = "trainer.recipes."
CLOCKED = ("samples_per_second",)
"""Metrics that depend on the clock."""

FIRST_NAMES = {"discriminator_output": "judgement", "center_heatmap": "nearness"}
"""Renamed metrics, and their names in the first fingerprints: a new name must not change the digest."""


def tenth(splits: Mapping[str, Dataset], *given: Any, **options: Any) -> dict[str, Loader]:
    """Returns loaders of every tenth item of each split."""
    shorter = {name: Subset(split, range(0, len(split), TENTH)) for name, split in splits.items()}
    return loaders(shorter, *given, **options)


def fingerprint(recipe: str) -> str:
    """Returns the digest of a recipe.

    Raises:
        TrainerError: the training failed.
    """
    loaded = load(recipe, OVERRIDES)
    task = getattr(loaded.task.import_module(), loaded.task.class_name)
    modules = [sys.modules[base.__module__] for base in task.__mro__ if base.__module__.startswith(RECIPES)]
    (module,) = (module for module in modules if hasattr(module, "loaders"))  # the task's or its base class's module
    module.loaders = tenth  # type: ignore[attr-defined]
    values: list[str] = []

    def sink(event: Event) -> None:
        if isinstance(event, MetricEvent):
            values.extend(
                f"{event.split} {event.step} {_first_name(name)} {float(value).hex()}"
                for name, value in event.values.items()
                if name not in CLOCKED
            )

    learner = Learner(task, loaded.config, loaded.options, sink=sink)
    learner.run().check()
    assert learner.training is not None
    training = learner.training
    values.extend(digests_of(training, ""))
    if training.ema is not None:
        with training.ema.in_place():
            values.extend(digests_of(training, "ema "))
    return hashlib.sha256("\n".join(sorted(values)).encode()).hexdigest()


def _first_name(metric: str) -> str:
    prefix, slash, name = metric.rpartition("/")
    return prefix + slash + FIRST_NAMES.get(name, name)


def digests_of(training: Training, prefix: str) -> list[str]:
    """Returns one line per state of the model."""
    return [
        f"{prefix}{name} {array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
        for name, state in model_states(training.parts).items()
        for array in (state.numpy(),)
    ]


if __name__ == "__main__":
    print(fingerprint(sys.argv[1]))
