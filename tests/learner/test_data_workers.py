"""Training on data from worker processes: the same run, told of where it waits, and nothing left at its end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from trainer.configs import RunConfig
from trainer.configs.custom_class import own_class
from trainer.configs.data import DataConfig
from trainer.datasets import loaders
from trainer.learner import DataSplits, Learner
from trainer.learner.hooks.input_bound import SECONDS, InputBound, advice
from trainer.learner.stopwatch import Reading
from trainer.rundir import Event, MetricEvent, WarningEvent

DATA = Path(__file__).parents[1] / "datasets" / "worker_data.py"


def test_a_run_with_worker_processes_is_the_run_without(blobs: Any, config: Callable[..., RunConfig]) -> None:
    points = sys.modules[own_class(f"{DATA}:Boxes").__module__].Points

    class FromFiles(blobs):  # type: ignore[misc]
        def data(self) -> DataSplits:
            self.made = DataSplits(**loaders({"train": points(50), "valid": points(20)}, self.config))
            return self.made

    kinds, runs = [], []
    for workers in (0, 2):
        events: list[Event] = []
        chosen = config(data={"batch_size": 16, "workers": workers}, train={"epochs": 4, "log_every_steps": 1})
        learner = Learner(FromFiles, chosen, sink=events.append)
        learner.run().check()
        kinds.append(learner.task.made.train.workers.kind)  # type: ignore[attr-defined]
        metrics = [each for each in events if isinstance(each, MetricEvent)]
        runs.append([(each.step, each.split, each.values | {"samples_per_second": None}) for each in metrics])
    assert kinds == ["none", "process"]
    assert runs[0] == runs[1] and len(runs[0]) > 16
    alive = [each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]
    assert not [each for each in alive if "datasets.workers" in " ".join(each.cmdline())]


class Heard:
    """Stands for a training: its last reading, its workers, and what it was told."""

    def __init__(self, workers: int) -> None:
        self.told: list[WarningEvent] = []
        self.tell = self.told.append
        self.reading: Reading | None = None
        self.splits = SimpleNamespace(train=SimpleNamespace(workers=SimpleNamespace(workers=workers)))

    def logs(self, hook: InputBound, data_wait: float, seconds: float) -> None:
        self.reading = Reading(100.0, 10.0, data_wait, seconds)
        hook.after_log(self, None)  # type: ignore[arg-type]


def test_waiting_for_data_is_told_of_once_when_it_has_lasted() -> None:
    training, hook = Heard(workers=1), InputBound(DataConfig())
    hook.after_log(training, None)  # type: ignore[arg-type]
    for _ in range(3):
        training.logs(hook, 0.5, SECONDS / 2 - 1)
        training.logs(hook, 0.1, 1.0)  # in between it did not wait
    assert not training.told
    training.logs(hook, 0.3, SECONDS / 2)
    training.logs(hook, 0.5, SECONDS / 2)
    training.logs(hook, 0.9, SECONDS)
    (warning,) = training.told
    assert "40%" in warning.message and "data.workers (now 1;" in warning.message


@pytest.mark.parametrize(
    ("data", "workers", "named", "unnamed"),
    [
        ({}, 0, ["data.workers (now 0; 4 processors)", "data.cache_gb"], ["data.prefetch"]),
        ({"cache_gb": 2}, 2, ["data.workers", "data.prefetch"], ["data.cache_gb"]),
        ({}, 4, ["data.cache_gb", "data.prefetch"], ["data.workers"]),
    ],
)
def test_what_to_raise_is_what_there_is_room_for(
    data: dict[str, Any], workers: int, named: list[str], unnamed: list[str]
) -> None:
    text = advice(DataConfig.model_validate(data), workers, 4)
    assert all(each in text for each in named) and not any(each in text for each in unnamed)
