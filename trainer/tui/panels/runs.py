"""The runs screen: all runs of the folder in a table, one metric of the marked ones in a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from trainer.rundir import RunSummary
from trainer.tui.charts import Chart, Layer
from trainer.tui.frame import Frame
from trainer.tui.glyphs import LETTERS
from trainer.tui.listing import Column, Row, TableState, draw_table
from trainer.tui.numbers import duration, number
from trainer.tui.text import Line, crop_line
from trainer.tui.view import View

ROLES = ("train", "valid", "third", "second", "rate", "best")
COLUMNS = (
    Column("run", most=36),
    Column("task", rank=5, most=24),
    Column("status"),
    Column("started", rank=4),
    Column("took", is_number=True, rank=3),
    Column("step", is_number=True, rank=2),
    Column("result", is_number=True, most=34),
)


def run_rows(runs: Sequence[RunSummary], marked: Sequence[Path], metric: str | None) -> list[Row]:
    """A row a run; `metric` is what its result shows, its own best choice where it has none of that."""
    letters = {path: LETTERS[index % len(LETTERS)] for index, path in enumerate(marked)}
    return [_row(run, letters.get(run.paths.root, ""), metric) for run in runs]


def shared_metrics(marked: Mapping[Path, View]) -> list[str]:
    """What the marked runs measured, "split/name": of the validation split first, losses last."""
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


def draw_runs(
    frame: Frame, width: int, height: int, runs: Sequence[RunSummary], marked: Sequence[Path], state: TableState,
    metric: str | None,
) -> list[Line]:  # fmt: skip
    """The table."""
    if not runs:
        return [(("looking for runs", "dim"),)]
    return draw_table(COLUMNS, run_rows(runs, marked, metric), state, width, height, frame.glyphs)


def draw_overlay(frame: Frame, width: int, height: int, chart: Chart | None) -> list[Line]:
    """The chart of the marked runs."""
    if chart is None:
        return [(("no metric of the marked runs yet; Space marks a run", "dim"),)]
    from trainer.tui.plot import draw_chart

    return draw_chart(chart, width, height, frame.glyphs)


def draw_differences(
    frame: Frame, width: int, height: int, names: Sequence[str], differences: Mapping[str, tuple[Any, ...]], scroll: int
) -> list[Line]:
    """A row for each key in which the marked runs' configurations differ."""
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
    """`metric` of the run with its name, else the one that tells most of it: by that checkpoints are the best."""
    shown = _shown(run, metric)
    return "-" if shown is None else f"{shown} {number(run.metrics[shown])}"


def _row(run: RunSummary, letter: str, metric: str | None) -> Row:
    shown = _shown(run, metric)
    value = run.metrics[shown] if shown is not None else None
    started = "-" if run.started is None else f"{datetime.fromtimestamp(run.started):%m-%d %H:%M}"
    status = run.status if run.attempt == 1 else f"{run.status} ({run.attempt})"
    cells = (
        run.name, run.task or "-", status, started, "-" if run.seconds is None else duration(run.seconds),
        "-" if run.step is None else str(run.step), result(run, metric),
    )  # fmt: skip
    role = {"failed": "bad", "lost": "bad", "running": "busy", "starting": "busy"}.get(run.status, "text")
    return Row(cells, (run.name, run.task, status, run.started, run.seconds, run.step, value), role, letter)


def _shown(run: RunSummary, metric: str | None) -> str | None:
    """`metric` where the run has it, else the one that tells most: that by which checkpoints are the best.

    Without one, of the test split before others, and a measure of quality before a loss.
    """
    for name in (metric, run.leading):
        if name in run.metrics:
            return name
    names = (name for name in run.metrics if not name.startswith("train/") or "loss" in name)
    order = {"test": 0, "valid": 1}
    return min(names, key=lambda name: (order.get(name.partition("/")[0], 2), "loss" in name), default=None)
