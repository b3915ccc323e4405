"""A run small enough to be taken up hundreds of times, with all that a checkpoint holds, and what is compared of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer.configs import RunConfig
from trainer.learner import Learner
from trainer.learner.checkpoints import DISK, Disk, first_difference, pointed, read_checkpoint, steps_in
from trainer.learner.outcome import Outcome
from trainer.rundir import Event, MetricEvent, Record, ResumedEvent, RunPaths, without_superseded

from tests.learner.conftest import Blobs  # isort: skip

Told = list[tuple[str, int, dict[str, float]]]


def small_config(**sections: Any) -> RunConfig:
    """Batch norm, dropout, accumulation, averages, float16 with its scale; checkpoints kept for each reason."""
    return RunConfig(
        **{
            "task": "blobs",
            "device": "reference",
            "optimizer": {"name": "adam", "learning_rate": 0.05},
            "schedule": {"name": "plateau", "metric": "valid/loss", "patience": 0, "gamma": 0.5},
            "data": {"batch_size": 16},
            "train": {"steps": 10, "accumulate": 2, "log_every_steps": 3, "ema": {"decay": 0.9},
                      "precision": "float16"},
            "early_stopping": {"metric": "valid/loss", "mode": "min", "patience": 9},
            "validate": {"every_steps": 2},
            "checkpoint": {
                "every_steps": 2, "keep_last": 1, "keep_every": 3,
                "best": {"metric": "valid/loss", "mode": "max", "keep": 2},
            },
            "autotune": {"mode": "off"},
            **sections,
        }
    )  # fmt: skip


def train(
    paths: RunPaths, config: RunConfig, tell: Callable[[Event], None], *, disk: Disk = DISK, attempt: int = 1
) -> Outcome:
    """Start the run, or go on with it where it has checkpoints, as `--resume auto` does."""
    is_begun = any(paths.checkpoints.glob("step-*")) or (paths.checkpoints / "latest").exists()
    if attempt > 1 and not is_begun:
        tell(ResumedEvent(0))
    resume = paths.root if is_begun else None
    return Learner(Blobs, config, paths=paths, sink=tell, disk=disk, attempt=attempt, resume=resume).run()


def told(*attempts: list[Event]) -> Told:
    """The metrics of a run's attempts that count, without speeds."""
    records = [Record(event, 0.0, 0.0, number) for number, events in enumerate(attempts, 1) for event in events]
    return sorted(
        (event.split, event.step, {name: value for name, value in event.values.items() if "per_second" not in name})
        for record in without_superseded(records)
        if isinstance(event := record.event, MetricEvent)
    )


def difference(one: Path, other: Path) -> str:
    """Where the checkpoints of two runs differ, their folders handed in; "": nowhere."""
    for name in ("latest", "best"):
        first, second = pointed(one, name), pointed(other, name)
        if first is None or second is None or first.name != second.name:
            return f"{name}: {first} and {second}"
        if found := first_difference(read_checkpoint(first), read_checkpoint(second)):
            return f"{name}: {': '.join(found)}"
    if steps_in(one) != steps_in(other):
        return f"{steps_in(one)} and {steps_in(other)}"
    return ", ".join(path.name for path in other.iterdir() if path.name.startswith("."))
