"""The table next to the curves: the latest values of each metric, and its best value with the epoch."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from trainer.tui.charts import best_of
from trainer.tui.frame import Frame
from trainer.tui.numbers import number
from trainer.tui.text import Line, crop
from trainer.tui.view import View

NUMBER_WIDTH = 8
MAX_NAME_WIDTH, MIN_NAME_WIDTH = 28, 8


class MetricRow(NamedTuple):
    """One metric; None for a split without it. `best` is the best validation value, at step `best_step`."""

    name: str
    train: float | None
    valid: float | None
    best: float | None
    best_step: float | None
    test: float | None


def metric_names(view: View) -> list[str]:
    """The metrics without splits: the one that chooses checkpoints, validated ones, others; losses last in each."""
    validated = {name for split, name in view.series if split == "valid"}
    names = dict.fromkeys(name for _, name in view.series)
    names |= dict.fromkeys(name.partition("/")[2] for name in view.finals if name.startswith("test/"))
    leading = (view.leading or "").removeprefix("valid/")
    return sorted(names, key=lambda name: (name != leading, name not in validated, "loss" in name))


def row_of(view: View, name: str) -> MetricRow:
    """The row of one metric; a training value is the running average, as in the charts."""
    train, valid = view.series.get(("train", name)), view.series.get(("valid", name))
    has_average = train is not None and len(train) > 0 and "learning_rate" not in name
    best = best_of(view, name) if valid is not None else None
    return MetricRow(
        name,
        None if train is None or not len(train) else train.smoothed[-1] if has_average else train.last,
        None if valid is None or not len(valid) else valid.last,
        None if best is None else best[1],
        None if best is None else best[0],
        view.finals.get(f"test/{name}"),
    )


def draw_metric_table(frame: Frame, width: int, height: int) -> list[Line]:
    """A row for each metric; if they do not fit, the last line has the number of the others."""
    view, glyphs = frame.view, frame.glyphs
    names = metric_names(view)
    if not names:
        return [(("no metrics yet", "dim"),)]
    shown = names if len(names) < height else names[: max(0, height - 2)]
    rows = [row_of(view, name) for name in shown]
    has_epochs = any(row.best_step is not None and view.epoch_of(row.best_step) is not None for row in rows)
    latest = [_text(row.train if row.valid is None else row.valid) for row in rows]
    columns = [("train", [_text(row.train) for row in rows], "text")]
    columns += [("valid", [_text(row.valid) for row in rows], "text")]
    columns += [("best", [_text(row.best) for row in rows], "best")]
    columns += [("epoch" if has_epochs else "step", [_when(row, view) for row in rows], "dim")]
    columns += [("test", [_text(row.test) for row in rows], "strong")]
    columns = [column for column in columns if any(column[1])]
    if width < MIN_NAME_WIDTH + NUMBER_WIDTH * len(columns):
        columns = [("latest", latest, "text"), *(column for column in columns if column[0] == "best")]
    room = max(1, min(MAX_NAME_WIDTH, width - NUMBER_WIDTH * len(columns)))
    head = "metric".ljust(room) + "".join(title.rjust(NUMBER_WIDTH) for title, *_ in columns)
    lines: list[Line] = [((head, "dim"),)]
    for index, row in enumerate(rows):
        name = crop(row.name, room - 1, glyphs.ellipsis).ljust(room)
        cells = [((texts[index] or "-").rjust(NUMBER_WIDTH), role if texts[index] else "dim")
                 for _, texts, role in columns]  # fmt: skip
        lines.append(((name, "text"), *cells))
    if len(shown) < len(names):
        lines.append(((f"and {len(names) - len(shown)} more: 2 has all of them", "dim"),))
    return lines[:height]


def metric_table_version(frame: Frame) -> Hashable:
    """The values that the table depends on."""
    view = frame.view
    return sum(series.version for series in view.series.values()), len(view.series), len(view.finals), view.best_step


def _text(value: float | None) -> str:
    return "" if value is None else number(value)[: NUMBER_WIDTH - 1]


def _when(row: MetricRow, view: View) -> str:
    if row.best_step is None:
        return ""
    epoch = view.epoch_of(row.best_step)
    return f"{row.best_step:g}" if epoch is None else f"{epoch:.3g}"
