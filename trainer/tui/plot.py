"""Draws a chart as lines: axes, ticks and current values around the raster.

This module is the first to need NumPy, after the first frame.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainer.tui.axes import log_ticks, ticks
from trainer.tui.canvas import Canvas, spans_of
from trainer.tui.chart_values import identity, labeled, limits_of, remembered, resolved, scaled, shown_steps, value_at
from trainer.tui.charts import Chart
from trainer.tui.glyphs import Glyphs
from trainer.tui.numbers import number
from trainer.tui.painting import paint, paint_cursor
from trainer.tui.raster import rows_of
from trainer.tui.text import Line, Span, crop, crop_line

LABEL_WIDTH = 7
"""Maximum width of a value: on the axis, and at the right edge."""

NAME_WIDTH = 18
"""Maximum width of a name at the right edge."""

NAMED_COLUMNS, VALUED_COLUMNS = 36, 20
"""Minimum width of the canvas next to names and values, and next to values only."""

LEGEND_HEIGHT = 7
"""Minimum height of a chart with a line for the legend."""

ROWS_PER_TICK, COLUMNS_PER_TICK = 4, 16


def draw_chart(chart: Chart, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """The chart in `height` lines of `width` cells: values on the left, steps below, current values on the right."""
    chart = resolved(chart)
    start, end = shown_steps(chart)
    cursor = chart.window.cursor
    axis = _Axis(start, end, f"{start:.0f}", f"{chart.unit} {end:.0f}", "" if cursor is None else f"@ {cursor:.0f}")
    return _draw(chart, axis, _layout(chart, width, height), glyphs)


def draw_diagram(chart: Chart, start: float, end: float, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """A chart over a quantity other than steps, between `start` and `end`."""
    return _draw(chart, _Axis(start, end, number(start), number(end)), _Layout(width, height), glyphs)


@dataclass(frozen=True)
class _Axis:
    """The axis below a chart: its range, and the words at its ends and in its middle."""

    start: float
    end: float
    left: str
    right: str
    middle: str = ""

    def line(self, columns: int, note: str) -> str:
        """The axis in `columns` cells, with ticks if there is room; `note` fills an empty middle."""
        room = columns - len(self.left) - len(self.right) - 4
        middle = self.middle or (note if len(note) <= room else "")
        cells = self.left + middle.center(max(1, columns - len(self.left) - len(self.right))) + self.right
        if middle or columns < 2 * COLUMNS_PER_TICK:
            return cells
        for value in ticks(self.start, self.end, columns // COLUMNS_PER_TICK):
            text = number(value)
            at = round((value - self.start) / (self.end - self.start) * (columns - 1)) - len(text) // 2
            around = cells[max(0, at - 2) : at + len(text) + 2]
            if at > 0 and len(around) == len(text) + 4 and not around.strip():
                cells = cells[:at] + text + cells[at + len(text) :]
        return cells


@dataclass(frozen=True)
class _Layout:
    """The division of a chart's cells.

    Attributes:
        width, height: size of the whole chart.
        has_legend: a line above the canvas names the layers.
        gutter: columns right of the canvas for current values.
        has_names: these columns also show the names.
    """

    width: int
    height: int
    has_legend: bool = False
    gutter: int = 0
    has_names: bool = False

    @property
    def rows(self) -> int:
        """Rows of the canvas."""
        return self.height - 1 - self.has_legend


def _layout(chart: Chart, width: int, height: int) -> _Layout:
    """The layout, which depends only on the names and the size, so that a chart does not move as its values change."""
    names = [layer.name for layer in labeled(chart)]
    room = width - LABEL_WIDTH
    named = 2 + LABEL_WIDTH + min(NAME_WIDTH, max(map(len, names), default=0))
    if room - named >= NAMED_COLUMNS:
        return _Layout(width, height, gutter=named, has_names=True)
    has_legend = len(names) > 1 and height >= LEGEND_HEIGHT
    return _Layout(width, height, has_legend, 1 + LABEL_WIDTH if room - LABEL_WIDTH - 1 >= VALUED_COLUMNS else 0)


def _draw(chart: Chart, axis: _Axis, layout: _Layout, glyphs: Glyphs) -> list[Line]:
    rows = layout.rows
    labels = _labels(chart, rows, axis.start, axis.end)
    margin = max(map(len, labels), default=0)
    columns = layout.width - margin - 1 - layout.gutter
    if columns < 4 or rows < 2:
        return [((chart.title, "text"),)]
    plot = _plot_of(chart, axis.start, axis.end, rows, columns, glyphs)
    drawn = plot.rows
    if chart.window.cursor is not None:
        drawn = _with_cursor(plot, chart.window.cursor, glyphs)
    edge = _current_values(chart, plot.canvas, layout, glyphs) if layout.gutter else {}
    lines: list[Line] = [_legend(chart, layout, glyphs)] if layout.has_legend else []
    for row, (label, spans) in enumerate(zip(labels, drawn, strict=True)):
        rule = glyphs.tick if label else glyphs.vertical
        lines.append(((label.rjust(margin), "dim"), (rule, "dim"), *spans, *edge.get(row, ())))
    below = " " * margin + glyphs.corner + axis.line(columns, plot.note)
    return [*lines, ((below[: layout.width], "dim"),)]


@dataclass(frozen=True)
class _Plot:
    """A chart painted without its cross-hair: the canvas, its rows as spans, and the meaning of its markers."""

    chart: Chart  # keeps its series alive: the key of a plot contains their `id`
    canvas: Canvas
    rows: list[list[Span]]
    note: str


_plots: OrderedDict[tuple[object, ...], _Plot] = OrderedDict()


def _plot_of(chart: Chart, start: float, end: float, rows: int, columns: int, glyphs: Glyphs) -> _Plot:
    def make() -> _Plot:
        canvas = Canvas.blank(rows, columns, start, end, *limits_of(chart, start, end))
        note = paint(chart, canvas, glyphs)
        return _Plot(chart, canvas, [spans_of(canvas, row) for row in range(rows)], note)

    return remembered(_plots, (identity(chart), start, end, rows, columns, glyphs), make)


def _with_cursor(plot: _Plot, step: float, glyphs: Glyphs) -> list[list[Span]]:
    """The rows with a dotted line in their blank cells."""
    canvas, rows = plot.canvas.copy(), list(plot.rows)
    for row in paint_cursor(canvas, step, glyphs):
        rows[row] = spans_of(canvas, row)
    return rows


def step_at(chart: Chart, width: int, height: int, column: float) -> float:
    """The step at a column of a chart of `width` by `height` cells; outside of the canvas, that of the nearer edge."""
    chart = resolved(chart)
    start, end = shown_steps(chart)
    layout = _layout(chart, width, height)
    margin = 1 + max(map(len, _labels(chart, layout.rows, start, end)), default=0)
    share = (column - margin + 0.5) / max(1, width - margin - layout.gutter)
    return start + (end - start) * min(1.0, max(0.0, share))


def _current_values(chart: Chart, canvas: Canvas, layout: _Layout, glyphs: Glyphs) -> dict[int, list[Span]]:
    """The value of each line by row, at the right edge next to the line's end; colliding values are moved apart."""
    rows = canvas.characters.shape[0]
    found = []
    for layer in labeled(chart):
        value = value_at(layer, chart, canvas.end)
        if value is not None:
            shown = scaled(value, chart)
            row = rows - 1 if math.isnan(shown) else int(rows_of(np.array([shown]), canvas.bottom, canvas.top, rows)[0])
            found.append((row, layer, value))
    found = sorted(found, key=lambda item: item[0])[:rows]
    edge: dict[int, list[Span]] = {}
    for row, (_, layer, value) in zip(_spread([row for row, *_ in found], rows), found, strict=True):
        text = f" {_short(value):<{LABEL_WIDTH}}"
        if layout.has_names:
            text += " " + crop(layer.name, layout.gutter - len(text) - 1, glyphs.ellipsis)
        edge[row] = [(text, layer.role)]
    return edge


def _spread(rows: Sequence[int], count: int) -> list[int]:
    """Distinct rows below `count`, near the given rows and in their order."""
    placed: list[int] = []
    for row in rows:
        placed.append(max(row, placed[-1] + 1 if placed else 0))
    limit = count - 1
    for index in reversed(range(len(placed))):
        placed[index] = min(placed[index], limit)
        limit = placed[index] - 1
    return placed


def _legend(chart: Chart, layout: _Layout, glyphs: Glyphs) -> Line:
    """The name of each layer in its color, with its value if the right edge has no room for it."""
    line: list[Span] = []
    for layer in labeled(chart):
        line.append((f"{glyphs.dot if layer.look == 'points' else 2 * glyphs.line} {layer.name}", layer.role))
        line.append(("  " if layout.gutter else f" {_short(layer.series.last)}  ", "text"))
    return crop_line(tuple(line), layout.width, glyphs.ellipsis)


def _labels(chart: Chart, rows: int, start: float, end: float) -> list[str]:
    return _value_labels(rows, *limits_of(chart, start, end), bool(chart.log_scale)) if rows >= 2 else []


def _value_labels(rows: int, bottom: float, top: float, log_scale: bool) -> list[str]:
    """The label of each row: round numbers, at least one for ROWS_PER_TICK rows."""
    labels = [""] * rows
    values = (log_ticks if log_scale else ticks)(bottom, top, rows // ROWS_PER_TICK)
    for value in values if len(values) <= rows else (values[0], values[-1]):
        height = math.log10(value) if log_scale else value
        labels[min(rows - 1, max(0, round((top - height) / (top - bottom) * (rows - 1))))] = _short(value)
    return labels


def _short(value: float) -> str:
    """A number in at most LABEL_WIDTH characters."""
    shorter = (number(value), f"{value:.3g}", f"{value:.2g}", f"{value:.0e}")
    return next((text for text in shorter if len(text) <= LABEL_WIDTH), shorter[-1])
