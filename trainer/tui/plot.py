"""Drawing a chart into lines: axes and labels around the raster. NumPy is first needed here, after the first frame."""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from trainer.tui.axes import step_range, value_range
from trainer.tui.charts import Chart, Layer, Smoothing
from trainer.tui.glyphs import Glyphs
from trainer.tui.numbers import number
from trainer.tui.raster import (
    BRAILLE_COLUMNS,
    BRAILLE_ROWS,
    Floats,
    braille_cells,
    connect,
    fill,
    reduce_columns,
    rows_of,
    running_average,
)
from trainer.tui.text import Line, Span

Found = TypeVar("Found")

LABEL_WIDTH = 7
"""The most that a label of the value axis takes."""

OUTLIERS = 2.0
"""Percent of raw values at either end that need not fit: one early spike must not flatten the rest of a run."""


@dataclass
class _Canvas:
    """Characters and roles by cell, with the ranges of both axes."""

    characters: NDArray[np.uint32]
    roles: NDArray[np.int64]
    names: list[str]
    start: float
    end: float
    bottom: float
    top: float

    @classmethod
    def blank(cls, rows: int, columns: int, start: float, end: float, bottom: float, top: float) -> _Canvas:
        """Nothing but blanks."""
        characters = np.full((rows, columns), ord(" "), np.uint32)
        return cls(characters, np.zeros((rows, columns), np.int64), ["text"], start, end, bottom, top)

    def copy(self) -> _Canvas:
        """One that can be painted on without changing this."""
        return replace(self, characters=self.characters.copy(), roles=self.roles.copy(), names=list(self.names))

    def paint(self, cells: NDArray[np.uint32], role: str) -> None:
        """Lay the cells that are not 0 over what is there."""
        there = cells != 0
        self.characters[there] = cells[there]
        self.roles[there] = self._number(role)

    def mark(self, row: int, column: int, glyph: str, role: str) -> None:
        """Put one character."""
        self.characters[row, column], self.roles[row, column] = ord(glyph), self._number(role)

    def column_of(self, step: float) -> int:
        """The column of a step; outside the canvas where it is not shown."""
        return int((step - self.start) / (self.end - self.start) * self.characters.shape[1])

    def _number(self, role: str) -> int:
        if role not in self.names:
            self.names.append(role)
        return self.names.index(role)


def draw_chart(chart: Chart, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """The chart in `height` lines of `width` cells: values on the left, steps below."""
    start, end = shown_steps(chart)
    cursor = chart.window.cursor
    return _draw(chart, start, end, f"{start:.0f}", f"step {end:.0f}", "" if cursor is None else f"@ {cursor:.0f}",
                 width, height, glyphs)  # fmt: skip


def draw_diagram(chart: Chart, start: float, end: float, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """A chart over something else than steps, between `start` and `end`."""
    return _draw(chart, start, end, number(start), number(end), "", width, height, glyphs)


def _draw(
    chart: Chart, start: float, end: float, left: str, right: str, middle: str, width: int, height: int, glyphs: Glyphs
) -> list[Line]:
    rows = height - 1
    labels = _labels(chart, rows, start, end)
    margin = max(map(len, labels), default=0)
    columns = width - margin - 1
    if columns < 4 or rows < 2:
        return [((chart.title, "text"),)]
    plot = _plot_of(chart, start, end, rows, columns, glyphs)
    drawn = plot.rows
    if chart.window.cursor is not None:
        drawn = _with_cursor(plot, chart.window.cursor, glyphs)
    lines: list[Line] = [
        ((label.rjust(margin), "dim"), (glyphs.vertical, "dim"), *spans)
        for label, spans in zip(labels, drawn, strict=True)
    ]
    axis = " " * margin + glyphs.corner + left + middle.center(max(1, columns - len(left) - len(right))) + right
    return [*lines, ((axis[:width], "dim"),)]


@dataclass(frozen=True)
class _Plot:
    """A chart on a canvas, without its cross-hair, and the rows as spans."""

    chart: Chart  # keeps its series alive: they are known by their identity
    canvas: _Canvas
    rows: list[list[Span]]


_plots: OrderedDict[tuple[object, ...], _Plot] = OrderedDict()
MOST_PLOTS = 32
"""More than a screen shows."""

_limits: OrderedDict[tuple[object, ...], tuple[Chart, tuple[float, float]]] = OrderedDict()


def _identity(chart: Chart) -> tuple[object, ...]:
    """What a chart's drawing depends on but for its cross-hair, which moves while everything else stands still."""
    window = chart.window
    layers = tuple((layer.look, layer.role, layer.mark, id(layer.series), layer.series.version)
                   for layer in chart.layers)  # fmt: skip
    return chart.best, chart.log_scale, window.start, window.end, window.smoothing, layers


def _remembered(
    found: OrderedDict[tuple[object, ...], Found], key: tuple[object, ...], make: Callable[[], Found]
) -> Found:
    """What is known by a key, else made now; what was not asked for longest is forgotten."""
    if key not in found:
        found[key] = make()
        while len(found) > MOST_PLOTS:
            found.popitem(last=False)
    found.move_to_end(key)
    return found[key]


def _plot_of(chart: Chart, start: float, end: float, rows: int, columns: int, glyphs: Glyphs) -> _Plot:
    def make() -> _Plot:
        blank = _Canvas.blank(rows, columns, start, end, *_limits_of(chart, start, end))
        canvas = _painted(chart, blank, glyphs)
        return _Plot(chart, canvas, [_spans(canvas, row) for row in range(rows)])

    return _remembered(_plots, (_identity(chart), start, end, rows, columns, glyphs), make)


def _with_cursor(plot: _Plot, step: float, glyphs: Glyphs) -> list[list[Span]]:
    """The rows with a dotted line where nothing else stands."""
    canvas, rows = plot.canvas.copy(), list(plot.rows)
    for row in _paint_cursor(canvas, step, glyphs):
        rows[row] = _spans(canvas, row)
    return rows


def _painted(chart: Chart, canvas: _Canvas, glyphs: Glyphs) -> _Canvas:
    """All of the chart but the cross-hair on a blank canvas."""
    for layer in chart.layers:
        if layer.look == "points":
            _paint_points(canvas, layer, chart, glyphs)
        else:
            _paint_line(canvas, layer, chart, glyphs)
    for layer in chart.layers:
        if layer.mark and len(layer.series):
            _mark_point(canvas, layer.series.steps[-1], layer.series.last, layer.mark, layer.role, chart.log_scale)
    if chart.best is not None:
        _mark_point(canvas, *chart.best, glyphs.best, "best", chart.log_scale)
    return canvas


def shown_steps(chart: Chart) -> tuple[float, float]:
    """The steps at the edges of the chart."""
    window = chart.window
    if window.end is not None:
        return window.start, window.end
    return window.start, step_range(max((layer.series.steps[-1] for layer in chart.layers if len(layer.series)),
                                        default=0.0))  # fmt: skip


def step_at(chart: Chart, width: int, height: int, column: float) -> float:
    """The step over a column of a chart drawn in so many cells; at the nearer edge where it is beside the canvas."""
    start, end = shown_steps(chart)
    margin = 1 + max(map(len, _labels(chart, height - 1, start, end)), default=0)
    share = (column - margin + 0.5) / max(1, width - margin)
    return start + (end - start) * min(1.0, max(0.0, share))


def values_at(chart: Chart, step: float) -> list[tuple[Layer, float]]:
    """The value of each layer at the last of its steps up to `step`; nothing of those that begin later."""
    found = []
    for layer in chart.layers:
        index = bisect_right(layer.series.steps, step) - 1
        if index >= 0 and layer.look != "points":
            values = layer.series.smoothed if layer.look == "smoothed" else layer.series.values
            found.append((layer, values[index]))
    return found


def _paint_cursor(canvas: _Canvas, step: float, glyphs: Glyphs) -> list[int]:
    """A dotted line: a third of the cells to be written again as it moves. The rows in which something was put."""
    column = canvas.column_of(step)
    if not 0 <= column < canvas.characters.shape[1]:
        return []
    rows = [row for row in np.flatnonzero(canvas.characters[:, column] == ord(" ")).tolist() if not row % 3]
    for row in rows:
        canvas.mark(row, column, glyphs.vertical, "dim")
    return rows


def _values(layer: Layer, chart: Chart) -> tuple[Floats, Floats]:
    """Steps and values of a layer, the values as logarithms on a logarithmic scale. Views: not to be kept."""
    x, y = np.asarray(layer.series.steps), _smoothed(layer, chart.window.smoothing)
    if chart.log_scale:
        y = np.log10(y, out=np.full(len(y), np.nan), where=y > 0)
    return x, y


def _smoothed(layer: Layer, smoothing: Smoothing) -> Floats:
    if layer.look != "smoothed" or smoothing == "none":
        return np.asarray(layer.series.values)
    if smoothing == "0.9":  # what a series sums up as it grows
        return np.asarray(layer.series.smoothed)
    return running_average(np.asarray(layer.series.values), float(smoothing))


def _limits_of(chart: Chart, start: float, end: float) -> tuple[float, float]:
    """The values at the bottom and at the top."""
    return _remembered(_limits, (_identity(chart), start, end), lambda: (chart, _found_limits(chart, start, end)))[1]


def _found_limits(chart: Chart, start: float, end: float) -> tuple[float, float]:
    lows, highs = [], []
    for layer in chart.layers:
        x, y = _values(layer, chart)
        if chart.window.end is not None:
            y = y[(x >= start) & (x <= end)]
        y = y[np.isfinite(y)]
        if not len(y):
            continue
        if layer.look == "raw":
            sample = y[:: max(1, len(y) // 4096)]  # a percentile of a sample is near enough for an axis
            lows.append(float(np.percentile(sample, OUTLIERS)))
            highs.append(float(np.percentile(sample, 100 - OUTLIERS)))
        else:
            lows.append(float(y.min()))
            highs.append(float(y.max()))
    return value_range(min(lows, default=math.nan), max(highs, default=math.nan))


def _paint_line(canvas: _Canvas, layer: Layer, chart: Chart, glyphs: Glyphs) -> None:
    rows, columns = canvas.characters.shape
    x, y = _values(layer, chart)
    if glyphs.braille:
        low, high = connect(reduce_columns(x, y, canvas.start, canvas.end, columns * BRAILLE_COLUMNS))
        cells = braille_cells(fill(low, high, canvas.bottom, canvas.top, rows * BRAILLE_ROWS)).astype(np.uint32)
        canvas.paint(np.where(cells, cells + 0x2800, 0).astype(np.uint32), layer.role)
    else:
        low, high = connect(reduce_columns(x, y, canvas.start, canvas.end, columns))
        dots = fill(low, high, canvas.bottom, canvas.top, rows)
        glyph = glyphs.raw_line if layer.look == "raw" else glyphs.line
        canvas.paint(np.where(dots, ord(glyph), 0).astype(np.uint32), layer.role)


def _paint_points(canvas: _Canvas, layer: Layer, chart: Chart, glyphs: Glyphs) -> None:
    rows, columns = canvas.characters.shape
    x, y = _values(layer, chart)
    last = reduce_columns(x, y, canvas.start, canvas.end, columns).last
    for column, row in enumerate(rows_of(last, canvas.bottom, canvas.top, rows).tolist()):
        if row >= 0:
            canvas.mark(row, column, glyphs.dot, layer.role)


def _mark_point(canvas: _Canvas, step: float, value: float, glyph: str, role: str, log_scale: bool) -> None:
    rows, columns = canvas.characters.shape
    if not math.isfinite(value) or (log_scale and value <= 0):
        return
    shown = np.array([math.log10(value) if log_scale else value])
    row = int(rows_of(shown, canvas.bottom, canvas.top, rows)[0])
    if canvas.start <= step <= canvas.end:
        canvas.mark(row, min(columns - 1, canvas.column_of(step)), glyph, role)


def _labels(chart: Chart, rows: int, start: float, end: float) -> list[str]:
    return _value_labels(rows, *_limits_of(chart, start, end), chart.log_scale) if rows >= 2 else []


def _value_labels(rows: int, bottom: float, top: float, log_scale: bool) -> list[str]:
    """The label of each row: at the ends, and in the middle where there is room."""
    labels = [""] * rows
    marked = {0, rows - 1} | ({(rows - 1) // 2} if rows >= 7 and rows % 2 else set())
    for row in marked:
        value = top - (top - bottom) * row / (rows - 1)
        if abs(value) < 1e-9 * (top - bottom):
            value = 0.0  # what rounding left of it
        value = 10.0**value if log_scale else value
        text = number(value)
        labels[row] = text if len(text) <= LABEL_WIDTH else f"{value:.0e}"
    return labels


def _spans(canvas: _Canvas, row: int) -> list[Span]:
    """A row of the canvas as spans of equal role."""
    roles = canvas.roles[row]
    text = canvas.characters[row].tobytes().decode(f"utf-32-{sys.byteorder[0]}e")
    cuts = [0, *(np.flatnonzero(roles[1:] != roles[:-1]) + 1).tolist(), len(text)]
    return [(text[start:stop], canvas.names[roles[start]]) for start, stop in pairwise(cuts)]
