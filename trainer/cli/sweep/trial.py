"""A running trial: its runs, one seed after the other, and their metric."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainer.cli.executors import Executor, Job
from trainer.cli.order import Order
from trainer.rundir import Run, open_run, read_lock, send_request
from trainer.rundir.sweeps import SweepPaths, Trial

ENDED = ("done", "pruned")
"""States of a run that is not resumed. A failed run is: a scheduler that kills a sweep's processes may kill the run
before its pilot, which then reports a failure.
"""


@dataclass(frozen=True)
class Plan:
    """The settings shared by all trials of a sweep.

    Attributes:
        seed: seed of the first run of a trial; further runs use the next integers.
        words: config values of all runs, as `key=value`.
    """

    paths: SweepPaths
    metric: str
    mode: str
    seed: int
    seeds: int
    words: tuple[str, ...]


def words_of(parameters: Mapping[str, Any]) -> list[str]:
    """The parameters as `key=value`, for a command line."""
    return [f"{name}={json.dumps(value)}" for name, value in parameters.items()]


class RunningTrial:
    """A trial in progress; the sweep's loop calls `advance` repeatedly.

    Attributes:
        trial: its number and values.
        values: the metric's values of the first run, one for each validation.
        results: the best value of each run that has ended.
        failure: why a run failed; empty if none has failed.
        is_pruned: whether the current run was asked to stop early.
    """

    def __init__(self, trial: Trial, plan: Plan, executor: Executor) -> None:
        self.trial, self._plan, self._executor = trial, plan, executor
        self.values: list[float] = []
        self.results: list[float] = []
        self.failure = ""
        self.is_pruned = False
        self.known_metrics: list[str] = []
        self._job: Job | None = None
        self._run: Run | None = None
        self._interrupted_at = -1

    @property
    def is_over(self) -> bool:
        """Whether all runs have ended, or one failed or was pruned and has ended."""
        if self.is_pruned:
            return self._job is None or self._job.is_over()
        return bool(self.failure) or len(self.results) == self._plan.seeds

    @property
    def result(self) -> float:
        """The mean of the runs' best values."""
        return sum(self.results) / len(self.results)

    def advance(self) -> None:
        """Starts the next run if it is due, and reads what the current one has written."""
        if self.is_pruned or self.is_over:
            return
        paths = self._plan.paths.run(self.trial.number, len(self.results), self._plan.seeds)
        if self._job is None:
            lock = read_lock(paths)
            if lock is not None and lock.alive:
                return  # the worker of a killed sweep is still writing its checkpoint
            if not self._has_ended():
                self._job = self._executor.start(self._order())
                return
        is_over = self._job is None or self._job.is_over()
        if self._run is None and paths.events.is_file():
            self._run = open_run(paths.root)
        if self._run is not None:
            self._run.refresh()
            series = self._run.metrics.get(self._plan.metric)
            if series is not None and not self.results:
                self.values = [value for value in series.value if math.isfinite(value)]
        if is_over:
            self._conclude()

    def prune(self) -> None:
        """Asks the current run to stop: it ends as pruned, with a checkpoint."""
        self.is_pruned = True
        if self._job is not None:
            send_request(self._plan.paths.run(self.trial.number, len(self.results), self._plan.seeds), "prune")

    def end(self) -> None:
        """Ends the current run, with a checkpoint."""
        if self._job is not None:
            self._job.end()

    def _has_ended(self) -> bool:
        """Whether the next run has ended before, with a result."""
        paths = self._plan.paths.run(self.trial.number, len(self.results), self._plan.seeds)
        return paths.events.is_file() and open_run(paths.root).status in ENDED

    def _conclude(self) -> None:
        """Records the result of the run that has ended."""
        run, job = self._run, self._job
        self._run = self._job = None
        if run is None or run.end is None:
            self.failure = (job.mistake if job is not None else "") or "the run ended before it began"
            return
        if run.end.status == "interrupted" and (run.end.step or 0) > self._interrupted_at:
            self._interrupted_at = run.end.step or 0  # preempted: the run is resumed as long as it makes progress
            return
        if run.end.status in ("failed", "interrupted"):
            self.failure = run.end.reason or run.end.status
            return
        finite = [value for value in run.metrics[self._plan.metric].value if math.isfinite(value)] if (
            self._plan.metric in run.metrics
        ) else []  # fmt: skip
        if not finite:
            self.known_metrics = [name for name in run.metrics if name.startswith("valid")]
            self.failure = f"no finite value of {self._plan.metric}"
            return
        self.results.append(max(finite) if self._plan.mode == "max" else min(finite))

    def _order(self) -> Order:
        plan, number = self._plan, len(self.results)
        paths = plan.paths.run(self.trial.number, number, plan.seeds)
        words = [str(plan.paths.config), *plan.words, f"seed={plan.seed + number}", *words_of(self.trial.parameters)]
        command = ("trainer", "sweep", str(plan.paths.root))
        return Order(tuple(words), os.getpid(), command, run_dir=str(paths.root), resume="auto", started=time.time())
