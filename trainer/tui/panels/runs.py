"""The runs screen: all runs of the folder in a table, one metric of the marked ones in a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from trainer.rundir import RunSummary
from trainer.tui.charts import Chart, Layer, better
from trainer.tui.frame import Frame
from trainer.tui.glyphs import LETTERS
from trainer.tui.listing import Column, Row, TableState, draw_table
from trainer.tui.numbers import duration, number
from trainer.tui.series import Series
from trainer.tui.text import Line
from trainer.tui.view import View

ROLES = ("train", "valid", "third", "second", "rate", "best")
NOT_COMPARED = ("name", "runs_dir")
"""Keys of the configuration that identify a run and configure nothing."""

MAX_KEY_WIDTH = 16
"""A longer configuration key loses its section in the title of its column."""

NOTE_RANK = 6
FIRST_KEY_RANK = 7
"""Columns of configuration keys are left out before notes, and notes before other columns; the last key first."""


@dataclass(frozen=True)
class Listing:
    """The runs, and the data of each run by path: its letter, validation metrics and configuration.

    Attributes:
        metric: "split/name" of the metric whose best value is shown; None: the primary metric of each run.
        keys: configuration keys with different values, a column each.
        text: a filter; only runs with this text in their row are shown.
    """

    runs: Sequence[RunSummary]
    marked: Sequence[Path] = ()
    metric: str | None = None
    validations: Mapping[Path, Mapping[str, Series]] = field(default_factory=dict)
    configs: Mapping[Path, Mapping[str, Any]] = field(default_factory=dict)
    text: str = ""

    @property
    def keys(self) -> list[str]:
        return differing_keys([self.configs[run.paths.root] for run in self.runs if run.paths.root in self.configs])

    @property
    def columns(self) -> list[Column]:
        """The columns of the table."""
        return [
            Column("run", most=36),
            Column("status"),
            Column("started", rank=5),
            Column("took", is_number=True, rank=4),
            Column("step", is_number=True, rank=3),
            Column(f"best {self.metric or 'metric'}", is_number=True, most=34),
            Column("at step", is_number=True, rank=2),
            *([Column("tags", rank=1, most=24)] if any(run.tags for run in self.runs) else []),
            *([Column("note", rank=NOTE_RANK, most=28)] if any(run.note for run in self.runs) else []),
            *(Column(title, rank=FIRST_KEY_RANK + index, most=20) for index, title in enumerate(short_keys(self.keys))),
            Column("task", rank=FIRST_KEY_RANK + len(self.keys), most=24),
        ]

    def rows(self) -> list[Row]:
        """A row for each run; its item is the run's path."""
        letters = {path: LETTERS[index % len(LETTERS)] for index, path in enumerate(self.marked)}
        keys = self.keys
        rows = [self._row(run, letters.get(run.paths.root, ""), keys) for run in self.runs]
        return [row for row in rows if self.text.lower() in "  ".join(row.cells).lower()]

    def _row(self, run: RunSummary, letter: str, keys: Sequence[str]) -> Row:
        name, value, step = best_value(run, self.metric, self.validations.get(run.paths.root, {}))
        best = "-" if value is None else number(value) if name == self.metric else f"{name} {number(value)}"
        started = "-" if run.started is None else f"{datetime.fromtimestamp(run.started):%m-%d %H:%M}"
        status = run.status if run.attempt == 1 else f"{run.status} ({run.attempt})"
        config = self.configs.get(run.paths.root, {})
        cells = [
            run.name, status, started, "-" if run.seconds is None else duration(run.seconds),
            "-" if run.step is None else str(run.step), best, "-" if step is None else f"{step:g}",
        ]  # fmt: skip
        sorting: list[Any] = [run.name, status, run.started, run.seconds, run.step, value, step]
        if any(other.tags for other in self.runs):
            cells.append(" ".join(run.tags))
            sorting.append(" ".join(run.tags) or None)
        if any(other.note for other in self.runs):
            cells.append(run.note.partition("\n")[0])
            sorting.append(run.note or None)
        for key in keys:
            setting = config.get(key)
            is_number = isinstance(setting, int | float) and not isinstance(setting, bool)
            cells.append("-" if key not in config else "null" if setting is None else str(setting))
            sorting.append((0, setting, "") if is_number else None if setting is None else (1, 0, str(setting)))
        cells.append(run.task or "-")
        sorting.append(run.task)
        role = {"failed": "bad", "lost": "bad", "running": "busy", "starting": "busy"}.get(run.status, "text")
        return Row(tuple(cells), tuple(sorting), role, letter, run.paths.root)


def differing_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The dotted keys whose values differ between configurations, in order."""
    keys = dict.fromkeys(key for config in configs for key in config if key not in NOT_COMPARED)
    missing = object()
    return [key for key in keys if any(config.get(key, missing) != configs[0].get(key, missing) for config in configs)]


def short_keys(keys: Sequence[str]) -> list[str]:
    """A title for each dotted key: a long key without its section, unless two keys would be the same."""
    last = [key.rpartition(".")[2] for key in keys]
    return [
        short if len(key) > MAX_KEY_WIDTH and last.count(short) == 1 else key
        for key, short in zip(keys, last, strict=True)
    ]


def best_value(
    run: RunSummary, metric: str | None, validations: Mapping[str, Series]
) -> tuple[str | None, float | None, float | None]:
    """Name, best value and step of `metric` in a run, or of the run's primary metric if it does not have `metric`.

    A metric outside the validation split has its latest value and no step.
    """
    for name in (metric, run.leading):
        if name is not None and name in validations:
            best = validations[name].best(better(name))
            if best is not None:
                return name, best[1], best[0]
    shown = _shown(run, metric)
    return (None, None, None) if shown is None else (shown, run.metrics[shown], None)


def shared_metrics(marked: Mapping[Path, View]) -> list[str]:
    """The metrics of the marked runs, "split/name": validation metrics first, losses last."""
    names = dict.fromkeys(f"{split}/{name}" for view in marked.values() for split, name in view.series)
    return sorted(names, key=lambda name: (not name.startswith("valid"), "loss" in name))


def overlay(marked: Mapping[Path, View], metric: str) -> Chart | None:
    """One metric of all marked runs in a chart; the letter and the name of a run stand at the end of its curve."""
    split, _, name = metric.partition("/")
    if "/" in name and (split, name) not in {key for view in marked.values() for key in view.series}:
        split, name = metric.rsplit("/", 1)  # test/<name>/accuracy
    layers = []
    for index, view in enumerate(marked.values()):
        series = view.series.get((split, name))
        if series is not None and len(series):
            letter, role = LETTERS[index % len(LETTERS)], ROLES[index % len(ROLES)]
            layers.append(Layer(f"{letter} {view.name}", series, "line", role, mark=letter))
    return Chart(metric, tuple(layers), log_scale=None if "loss" in name else False) if layers else None


def draw_runs(frame: Frame, width: int, height: int, listing: Listing, state: TableState) -> list[Line]:
    """Draws the table of the runs."""
    if not listing.runs:
        return [(("looking for runs", "dim"),)]
    rows = listing.rows()
    if not rows:
        return [((f"no run with {listing.text!r}", "dim"),)]
    return draw_table(listing.columns, rows, state, width, height, frame.glyphs)


def draw_overlay(frame: Frame, width: int, height: int, chart: Chart | None) -> list[Line]:
    """Draws the chart of the marked runs."""
    if chart is None:
        return [(("no metric of the marked runs yet; Space marks a run", "dim"),)]
    from trainer.tui.plot import draw_chart

    return draw_chart(chart, width, height, frame.glyphs)


def draw_differences(
    frame: Frame, width: int, height: int, names: Sequence[str], differences: Mapping[str, tuple[Any, ...]], scroll: int
) -> list[Line]:
    """A row for each configuration key whose value differs between the marked runs."""
    if len(names) < 2:
        return [(("mark another run with Space", "dim"),)]
    if not differences:
        return [(("their configurations are equal", "dim"),)]
    columns = [
        Column("key", most=40),
        *(Column(f"{LETTERS[index]} {name}", most=30) for index, name in enumerate(names)),
    ]
    rows = [Row((key, *map(str, values)), ()) for key, values in differences.items()]
    return draw_table(columns, rows, TableState(scroll), width, height, frame.glyphs)


def result(run: RunSummary, metric: str | None = None) -> str:
    """The latest value of `metric` with its name, else of the run's primary metric."""
    shown = _shown(run, metric)
    return "-" if shown is None else f"{shown} {number(run.metrics[shown])}"


def _shown(run: RunSummary, metric: str | None) -> str | None:
    """`metric` if the run has it, else the metric that chooses checkpoints.

    Without either, a test metric before others, and a quality metric before a loss.
    """
    for name in (metric, run.leading):
        if name in run.metrics:
            return name
    names = (name for name in run.metrics if not name.startswith("train/") or "loss" in name)
    order = {"test": 0, "valid": 1}
    return min(names, key=lambda name: (order.get(name.partition("/")[0], 2), "loss" in name), default=None)
