"""The data of a run for the sections of its report."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from trainer.rundir import Record, Run, Series, by_importance, read_lock, read_note, read_tags, task_name
from trainer.tui.charts import better
from trainer.tui.diagnosis import diagnose
from trainer.tui.numbers import duration, moment, number
from trainer.tui.status import status_of
from trainer.tui.view import View

METRIC_COLUMNS = ("metric", "last", "at step", "best", "at step")

MOST_FIGURES = 4
"""Maximum number of figures at the top of the page."""


@dataclass(frozen=True)
class Peak:
    """The best value of a metric and the step at which it was measured."""

    value: float
    step: float
    epoch: float


@dataclass(frozen=True)
class Source:
    """The run, and the maximum number of pictures of each name in the report, the newest first."""

    run: Run
    samples: int = 4

    @cached_property
    def records(self) -> list[Record]:
        """All records, without those that a resumed attempt replaced."""
        return self.run.events()

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of one kind, in their order."""
        return [record.event for record in self.records if isinstance(record.event, kind)]

    @cached_property
    def metrics(self) -> Mapping[str, Series]:
        """The metrics that have a finite value, the most important first."""
        finite = {name: series for name, series in self.run.metrics.items() if any(map(_is_finite, series.value))}
        return {name: finite[name] for name in by_importance(finite, self.run.paths.leading_metric)}

    @cached_property
    def leading(self) -> str | None:
        """The monitored metric, or the most important one if none is monitored or it has no value; None without any."""
        return next(iter(self.metrics), None)

    @property
    def facts(self) -> list[str]:
        """State, times, task, device, host, version and tags of the run, each as text."""
        run = self.run
        words = [run.status + (f", attempt {run.attempt}" if run.attempt > 1 else "")]
        if self.records:
            words += [moment(self.records[0].time), f"took {duration(run.seconds)}"]
        if run.head is not None:
            threads = f", {run.head.threads} threads" if run.head.threads else ""
            words += [f"task {task_name(run.head.task)}", f"{run.head.device}{threads}", run.head.host]
            words.append(f"trainer {run.head.version}")
        return [*words, *read_tags(run.paths)]

    @property
    def diagnosis(self) -> str | None:
        """One sentence on the state of the run, as on the dashboard; None if no rule applies."""
        paths = self.run.paths
        view = View(paths.name, leading=paths.leading_metric)
        for record in self.records:
            view.apply(record)
        found = diagnose(view, status_of(view, read_lock(paths), time.time()))
        return None if found is None else found.text

    @property
    def texts(self) -> list[str]:
        """The user's note, the diagnosis, and why the run ended, without those that are missing."""
        reason = self.run.end.reason if self.run.end is not None and self.run.end.status != "failed" else None
        return [text for text in (read_note(self.run.paths), self.diagnosis, reason) if text]

    @property
    def quantities(self) -> list[str]:
        """The quantities at the top: the monitored one, then the loss (the next important one if it is monitored)."""
        found = list(dict.fromkeys(map(quantity, self.metrics)))
        return found[:1] + [one for one in found[1:] if found[0] == "loss" or one == "loss"][:1]

    @property
    def figures(self) -> list[tuple[str, float, str]]:
        """The figures at the top of the page: name, value and when, for the metrics of `quantities`.

        A test metric is shown with its last value, because nothing is selected by it.
        """
        listed = [[name for name in self.metrics if quantity(name) == one] for one in self.quantities]
        evaluated = [name for names in listed for name in names if not name.startswith("train/")]
        figures = []
        for name in (evaluated or listed[0] if listed else [])[:MOST_FIGURES]:
            series, peak = self.metrics[name], self.peak(name)
            if name.startswith("test"):
                figures.append((name, series.value[-1], f"at step {series.step[-1]:g}"))
                continue
            when = f"best, at step {peak.step:g}" + (f", epoch {peak.epoch:g}" if peak.epoch else "")
            last = f"; last {number(series.value[-1])}" if series.step[-1] != peak.step else ""
            figures.append((name, peak.value, when + last))
        return figures

    @property
    def table(self) -> list[tuple[str, float, float, float, float]]:
        """A row for each metric, in METRIC_COLUMNS."""
        rows = []
        for name, series in self.metrics.items():
            peak = self.peak(name)
            rows.append((name, series.value[-1], series.step[-1], peak.value, peak.step))
        return rows

    def peak(self, name: str) -> Peak:
        """The best value of a metric: by the config's mode for the monitored one, otherwise by its name."""
        paths, series = self.run.paths, self.metrics[name]
        mode = (paths.monitored_mode if name == paths.leading_metric else None) or better(name)
        pick = min if mode == "min" else max
        finite = [index for index, value in enumerate(series.value) if _is_finite(value)]
        at = pick(finite, key=lambda index: series.value[index])
        return Peak(series.value[at], series.step[at], series.epoch[at])


def quantity(name: str) -> str:
    """The quantity that a metric measures, without split and weights: `valid/ema/coco/AP` is `coco/AP`."""
    return name.partition("/")[2].removeprefix("ema/")


def read_json(path: Path | None) -> Any:
    """The content of a JSON file; None if it is missing or damaged."""
    try:
        return None if path is None else json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _is_finite(value: float) -> bool:
    return value - value == 0
