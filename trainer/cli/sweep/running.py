"""The loop of a sweep: asks for trials, runs them, stops the worse ones early, and writes the best config.

ask → start → { read metrics → report → prune? } → tell → trials.json, best.yaml
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from trainer import TrainerError, configs
from trainer.cli.executors import Executor
from trainer.cli.sweep.search import Search
from trainer.cli.sweep.trial import Plan, RunningTrial, words_of
from trainer.rundir import write_text
from trainer.rundir.sweeps import COMPLETE, FAILED, SweepPaths, SweepState, Trial, write_state

SECONDS_BETWEEN_LOOKS = 0.1
MOST_FAILURES = 3
"""Number of failed trials that end the sweep if none has completed: the cause is not their values."""
ALONE = ("sweep=null", "validate.test=false")
"""Config values of all trials: the test split is evaluated once, for the chosen model."""
MAY_CHANGE = ("sweep.trials", "sweep.parallel", "threads", "name", "sinks", "train.watchdog_minutes")
"""Keys that a continued sweep may change: its trials stay comparable."""

Tell = Callable[[Trial, bool], None]
"""Receives a trial that has started or ended, and whether it is the best one so far."""


@dataclass(frozen=True)
class Sweep:
    """A sweep that is about to run: its folder and its config."""

    paths: SweepPaths
    loaded: configs.Loaded

    @property
    def section(self) -> configs.SweepConfig:
        """The section `sweep:`."""
        assert self.loaded.config.sweep is not None
        return self.loaded.config.sweep

    @property
    def monitored(self) -> tuple[str, str]:
        """The metric that compares trials, and its mode; those of checkpoint.best if the section sets none."""
        best = self.loaded.config.checkpoint.best
        if self.section.metric is not None and self.section.mode is not None:
            return self.section.metric, self.section.mode
        assert best is not None  # the config has been checked
        return best.metric, best.mode


def take_up(paths: SweepPaths, loaded: configs.Loaded) -> Sweep:
    """Writes the config of a new sweep, or checks that the folder's sweep is the same. The folder is locked.

    Raises:
        TrainerError: the folder holds another sweep or other files, or can't be written.
    """
    if paths.config.is_file():
        before = configs.load_resolved(paths.config)
        changed = [one for one in configs.changes(before.config, loaded.config) if not one.key.startswith(MAY_CHANGE)]
        if changed:
            raise TrainerError(
                "the folder holds another sweep", where=str(paths.root),
                found=f"{changed[0].key}: {changed[0].before} there, {changed[0].after} here",
                expected="the same config; only " + ", ".join(MAY_CHANGE) + " may differ",
                hint="Start another sweep with --name.",
            )  # fmt: skip
    elif others := sorted(path.name for path in paths.root.iterdir() if not path.name.startswith(".")):
        raise TrainerError(
            "the folder is not empty and holds no sweep", where=str(paths.root), found=", ".join(others[:8]),
            expected="a new or empty folder, or that of a sweep",
        )  # fmt: skip
    write_text(paths.config, configs.dump_resolved(loaded))
    return Sweep(paths, loaded)


def run_sweep(
    sweep: Sweep, executor: Executor, *, tell: Tell, wait: Callable[[float], None] = time.sleep
) -> SweepState:
    """Runs all trials that have no result yet; returns the state at the end.

    An exception, such as KeyboardInterrupt, ends the running trials with a checkpoint; they are resumed next time.

    Raises:
        TrainerError: the first trials failed, or report no metric of this name.
    """
    section, config = sweep.section, sweep.loaded.config
    metric, mode = sweep.monitored
    search = Search(sweep.paths, section, mode=mode, seed=config.seed)
    threads = () if config.threads is not None else (f"threads={executor.threads}",)
    plan = Plan(sweep.paths, metric, mode, config.seed, section.seeds, (*ALONE, *threads))
    waiting, running = search.unfinished(), list[RunningTrial]()
    keeper = _Keeper(sweep, search)
    keeper.keep()
    try:
        while waiting or running or keeper.remaining():
            while len(running) < section.parallel and (waiting or keeper.remaining()):
                trial = waiting.pop(0) if waiting else search.ask()
                running.append(RunningTrial(trial, plan, executor))
                keeper.keep()
                tell(trial, False)
            for one in list(running):
                one.advance()
                if _is_concluded(one, search):
                    running.remove(one)
                    is_best = keeper.keep()
                    tell(search.trials[one.trial.number], is_best)
                    _refuse_hopeless(one, keeper.state, metric)
            if running:
                wait(SECONDS_BETWEEN_LOOKS)
    finally:
        for one in running:
            one.end()
    return keeper.state


def _is_concluded(one: RunningTrial, search: Search) -> bool:
    """Records the result of a trial that is over or should be stopped; returns whether it is over."""
    number = one.trial.number
    if one.is_pruned:
        return one.is_over
    if one.failure:
        search.fail(number, one.failure)
    elif one.is_over:
        search.complete(number, one.result)
    elif search.is_pruned(number, one.values):
        search.prune(number)  # before its process ends: a trial killed in between must not be resumed
        one.prune()
        return one.is_over
    else:
        return False
    return True


def _refuse_hopeless(one: RunningTrial, state: SweepState, metric: str) -> None:
    """Raises if the trial shows that no trial can succeed."""
    if one.known_metrics and not state.count(COMPLETE):
        raise TrainerError(
            f"no trial reports the metric {metric}", found=", ".join(one.known_metrics),
            hint="Set sweep.metric to one of those.",
        )  # fmt: skip
    if state.count(FAILED) >= MOST_FAILURES and not state.count(COMPLETE):
        raise TrainerError(
            f"the first {state.count(FAILED)} trials failed", found=one.failure, expected="one that trains to its end"
        )


class _Keeper:
    """Writes the files for readers after every change."""

    def __init__(self, sweep: Sweep, search: Search) -> None:
        self._sweep, self._search = sweep, search
        self._best: int | None = None
        self.state = SweepState("", "max", "", 0)

    def remaining(self) -> bool:
        """Whether further trials are planned."""
        return len(self.state.trials) < self._sweep.section.total()

    def keep(self) -> bool:
        """Writes trials.json and, if the best trial has changed, best.yaml; returns whether it has."""
        section, (metric, mode) = self._sweep.section, self._sweep.monitored
        logarithmic = [name for name, parameter in section.parameters.items() if parameter.log]
        self.state = SweepState(
            metric, mode, section.method, max(section.total(), len(self._search.trials)), section.seeds, logarithmic,
            self._search.trials, self._search.importance(),
        )  # fmt: skip
        write_state(self._sweep.paths, self.state)
        best = self.state.best
        if best is None or best.number == self._best:
            return False
        self._best = best.number
        words = ["sweep=null", *words_of(best.parameters)]
        loaded = configs.load(str(self._sweep.paths.config.absolute()), words)
        write_text(self._sweep.paths.best, configs.dump_resolved(loaded))
        return True
