"""Draws curves of several runs in one text chart. Each run is drawn with a letter, so that colors are not needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trainer.rundir import Series
from trainer.tui.axes import step_range, value_range
from trainer.tui.numbers import number
from trainer.tui.raster import connect, reduce_columns, rows_of

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
BOTH = "*"
"""The character where two runs share a cell."""


def overlaid(
    series: Mapping[str, Series], width: int, height: int, *, ends: tuple[str, str] | None = None
) -> list[str]:
    """Draws the series by letter in `height` lines of at most `width` cells: values on the left, steps at the bottom.

    With `ends`, the step axis ends at the last step, and `ends` are the labels of its two ends.
    """
    values = np.concatenate([np.asarray(one.value) for one in series.values()])
    finite = values[np.isfinite(values)]
    if not len(finite):
        return ["no finite values"]
    bottom, top = value_range(float(finite.min()), float(finite.max()))
    last = max(float(one.step[-1]) for one in series.values() if len(one))
    end = step_range(last) if ends is None else max(last, 1.0)
    rows = height - 1
    labels = _labels(rows, bottom, top)
    margin = max(map(len, labels))
    columns = width - margin - 1
    cells = np.full((rows, columns), " ", "<U1")
    for letter, one in series.items():
        low, high = connect(reduce_columns(np.asarray(one.step), np.asarray(one.value), 0.0, end, columns))
        middle = rows_of((low + high) / 2, bottom, top, rows)
        for column in np.flatnonzero(middle >= 0).tolist():
            cell = cells[middle[column], column]
            cells[middle[column], column] = letter if cell == " " else BOTH
    lines = [f"{label:>{margin}}│{''.join(cells[row])}".rstrip() for row, label in enumerate(labels)]
    left, right = ends or ("0", f"step {end:.0f}")
    return [*lines, f"{' ' * margin}└{left}{' ' * max(1, columns - len(left) - len(right))}{right}"]


def letters(names: Sequence[str]) -> list[str]:
    """A letter for each run."""
    return [LETTERS[index] for index in range(len(names))]


def _labels(rows: int, bottom: float, top: float) -> list[str]:
    marked = {0, (rows - 1) // 2, rows - 1}
    return [number(top - (top - bottom) * row / (rows - 1)) if row in marked else "" for row in range(rows)]
