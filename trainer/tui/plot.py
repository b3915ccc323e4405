"""Drawing a chart into lines: axes, ticks and current values around the raster.

NumPy is first needed here, after the first frame.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from trainer.tui.axes import log_ticks, step_range, ticks, value_range
from trainer.tui.charts import Chart, Layer, Smoothing
from trainer.tui.glyphs import Glyphs
from trainer.tui.numbers import number
from trainer.tui.ranges import FENCE, LOG_FENCE, full_range, robust_range, tails
from trainer.tui.raster import (
    BRAILLE_COLUMNS,
    BRAILLE_ROWS,
    Columns,
    Dots,
    Floats,
    braille_cells,
    connect,
    fill,
    point_dots,
    reduce_columns,
    rows_of,
    running_average,
)
from trainer.tui.text import Line, Span, crop, crop_line

Item = TypeVar("Item")

LABEL_WIDTH = 7
"""Maximum width of a value: on the axis, and at the right edge."""

NAME_WIDTH = 18
"""Maximum width of a name at the right edge."""

NAMED_COLUMNS, VALUED_COLUMNS = 36, 20
"""Minimum width of the canvas next to names and values, and next to values alone."""

LEGEND_HEIGHT = 7
"""Minimum height of a chart with a line for the legend."""

ROWS_PER_TICK, COLUMNS_PER_TICK = 4, 16

LOG_PARTS = 8
"""The ends of a logarithmic axis are rounded less: half a decade of nothing is much of a chart."""

DECADES = 1.3
"""A chart that may choose its scale has a logarithmic one if its values span this many powers of ten."""


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
        """A copy to paint on without changing this canvas."""
        return replace(self, characters=self.characters.copy(), roles=self.roles.copy(), names=list(self.names))

    def paint(self, cells: NDArray[np.uint32], role: str) -> None:
        """Lay the cells that are not 0 over the canvas; dots of the same role join."""
        drawn, number = cells != 0, self._number(role)
        joined = drawn & (self.roles == number) & (self.characters >= BRAILLE) & (cells >= BRAILLE)
        self.characters[joined] |= cells[joined]
        over = drawn & ~joined
        self.characters[over] = cells[over]
        self.roles[over] = number

    def mark(self, row: int, column: int, glyph: str, role: str) -> None:
        """Put one character."""
        self.characters[row, column], self.roles[row, column] = ord(glyph), self._number(role)

    def column_of(self, step: float) -> int:
        """The column of a step; outside of the canvas where the step is not shown."""
        return int((step - self.start) / (self.end - self.start) * self.characters.shape[1])

    def _number(self, role: str) -> int:
        if role not in self.names:
            self.names.append(role)
        return self.names.index(role)


BRAILLE = 0x2800
"""The character without dots, from which those with dots are counted."""


def draw_chart(chart: Chart, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """The chart in `height` lines of `width` cells: values on the left, steps below, current values on the right."""
    chart = resolved(chart)
    start, end = shown_steps(chart)
    cursor = chart.window.cursor
    axis = _Axis(start, end, f"{start:.0f}", f"step {end:.0f}", "" if cursor is None else f"@ {cursor:.0f}")
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
        """The axis in `columns` cells, with ticks where there is room; `note` stands where the middle is empty."""
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
    """How a chart uses its cells.

    Attributes:
        width, height: of all of it.
        has_legend: a line above the canvas names the layers.
        gutter: columns right of the canvas for current values.
        has_names: the names stand there too.
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
    """By the names and the size alone, so that a chart does not move while its values change."""
    names = [layer.name for layer in _labeled(chart)]
    room = width - LABEL_WIDTH
    named = 2 + LABEL_WIDTH + min(NAME_WIDTH, max(map(len, names), default=0))
    if room - named >= NAMED_COLUMNS:
        return _Layout(width, height, gutter=named, has_names=True)
    has_legend = len(names) > 1 and height >= LEGEND_HEIGHT
    return _Layout(width, height, has_legend, 1 + LABEL_WIDTH if room - LABEL_WIDTH - 1 >= VALUED_COLUMNS else 0)


def _labeled(chart: Chart) -> list[Layer]:
    """One layer of each name: the line rather than the points, the running average rather than the values."""
    found: dict[str, Layer] = {}
    for layer in chart.layers:
        known = found.get(layer.name)
        if known is None or known.look == "raw" or (known.look == "points" and layer.look != "raw"):
            found[layer.name] = layer
    return list(found.values())


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
    """A chart on a canvas, without its cross-hair, the rows as spans, and what its markers mean."""

    chart: Chart  # keeps its series alive: they are known by their identity
    canvas: _Canvas
    rows: list[list[Span]]
    note: str


_plots: OrderedDict[tuple[object, ...], _Plot] = OrderedDict()
MAX_PLOTS = 32
"""More than a screen shows."""

_limits: OrderedDict[tuple[object, ...], tuple[Chart, tuple[float, float]]] = OrderedDict()
_scales: OrderedDict[tuple[object, ...], tuple[Chart, bool]] = OrderedDict()


def _identity(chart: Chart) -> tuple[object, ...]:
    """What a chart's drawing depends on but for its cross-hair, which moves while everything else stands still."""
    window = replace(chart.window, cursor=None)
    layers = tuple((layer.look, layer.role, layer.mark, id(layer.series), layer.series.version)
                   for layer in chart.layers)  # fmt: skip
    return chart.best, chart.log_scale, window, layers


def _remembered(
    memory: OrderedDict[tuple[object, ...], Item], key: tuple[object, ...], make: Callable[[], Item]
) -> Item:
    """The item of a key, made at its first use; the least recently used ones are dropped."""
    if key not in memory:
        memory[key] = make()
        while len(memory) > MAX_PLOTS:
            memory.popitem(last=False)
    memory.move_to_end(key)
    return memory[key]


def resolved(chart: Chart) -> Chart:
    """The chart with its scale decided, where it may choose: logarithmic if its values span DECADES powers of ten."""
    if chart.log_scale is not None:
        return chart
    _, is_log = _remembered(_scales, _identity(chart), lambda: (chart, _spans_decades(chart)))
    return replace(chart, log_scale=is_log)


def _spans_decades(chart: Chart) -> bool:
    linear = replace(chart, log_scale=False)
    both = []
    for layer in _labeled(linear):
        values = _finite(_values(layer, linear)[1], layer, linear)
        both += [tails(values)] if len(values) else []
    low, high = min((low for low, _ in both), default=0.0), max((high for _, high in both), default=0.0)
    return low > 0 and math.log10(high / low) >= DECADES - 1e-9


def _plot_of(chart: Chart, start: float, end: float, rows: int, columns: int, glyphs: Glyphs) -> _Plot:
    def make() -> _Plot:
        canvas = _Canvas.blank(rows, columns, start, end, *_limits_of(chart, start, end))
        note = _paint(chart, canvas, glyphs)
        return _Plot(chart, canvas, [_spans(canvas, row) for row in range(rows)], note)

    return _remembered(_plots, (_identity(chart), start, end, rows, columns, glyphs), make)


def _with_cursor(plot: _Plot, step: float, glyphs: Glyphs) -> list[list[Span]]:
    """The rows with a dotted line in their blank cells."""
    canvas, rows = plot.canvas.copy(), list(plot.rows)
    for row in _paint_cursor(canvas, step, glyphs):
        rows[row] = _spans(canvas, row)
    return rows


def _paint(chart: Chart, canvas: _Canvas, glyphs: Glyphs) -> str:
    """Paint all of the chart but the cross-hair; returns what the markers mean, empty without any."""
    markers: dict[str, str] = {}
    reduced = [(_paint_points if layer.look == "points" else _paint_line)(canvas, layer, chart, glyphs)
               for layer in chart.layers]  # fmt: skip
    for layer, columns in zip(chart.layers, reduced, strict=True):
        for row, column, glyph, meaning, role in _markers(canvas, layer, columns, chart, glyphs):
            canvas.mark(row, column, glyph, role)
            markers[glyph] = meaning
    for layer in chart.layers:
        if layer.mark and len(layer.series):
            _mark_point(canvas, layer.series.steps[-1], layer.series.last, layer.mark, layer.role, chart)
    if chart.best is not None:
        _mark_point(canvas, *chart.best, glyphs.best, "best", chart)
    return "  ".join(f"{glyph} {meaning}" for glyph, meaning in markers.items())


def shown_steps(chart: Chart) -> tuple[float, float]:
    """The steps at the edges of the chart."""
    window = chart.window
    if window.end is not None:
        return window.start, window.end
    return window.start, step_range(max((layer.series.steps[-1] for layer in chart.layers if len(layer.series)),
                                        default=0.0))  # fmt: skip


def step_at(chart: Chart, width: int, height: int, column: float) -> float:
    """The step at a column of a chart of `width` by `height` cells; that of the nearer edge outside of the canvas."""
    chart = resolved(chart)
    start, end = shown_steps(chart)
    layout = _layout(chart, width, height)
    margin = 1 + max(map(len, _labels(chart, layout.rows, start, end)), default=0)
    share = (column - margin + 0.5) / max(1, width - margin - layout.gutter)
    return start + (end - start) * min(1.0, max(0.0, share))


def values_at(chart: Chart, step: float) -> list[tuple[Layer, float]]:
    """The value of each line at the last of its steps up to `step`, without lines that begin later."""
    found = []
    for layer in chart.layers:
        value = None if layer.look == "points" else _value_at(layer, chart, step)
        if value is not None:
            found.append((layer, value))
    return found


def _value_at(layer: Layer, chart: Chart, step: float) -> float | None:
    index = bisect_right(layer.series.steps, step) - 1
    if index < 0:
        return None
    values = layer.series.smoothed if layer.look == "smoothed" else layer.series.values
    return values[index]


def _current_values(chart: Chart, canvas: _Canvas, layout: _Layout, glyphs: Glyphs) -> dict[int, list[Span]]:
    """By row, the value of each line at the right edge, next to its end; values that collide move apart."""
    rows = canvas.characters.shape[0]
    found = []
    for layer in _labeled(chart):
        value = _value_at(layer, chart, canvas.end)
        if value is not None:
            shown = _scaled(value, chart)
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
    """Different rows of `count`, near the given ones and in their order."""
    placed: list[int] = []
    for row in rows:
        placed.append(max(row, placed[-1] + 1 if placed else 0))
    limit = count - 1
    for index in reversed(range(len(placed))):
        placed[index] = min(placed[index], limit)
        limit = placed[index] - 1
    return placed


def _legend(chart: Chart, layout: _Layout, glyphs: Glyphs) -> Line:
    """The name of each layer in its color, with its value where the right edge has no room for it."""
    line: list[Span] = []
    for layer in _labeled(chart):
        line.append((f"{glyphs.dot if layer.look == 'points' else 2 * glyphs.line} {layer.name}", layer.role))
        line.append(("  " if layout.gutter else f" {_short(layer.series.last)}  ", "text"))
    return crop_line(tuple(line), layout.width, glyphs.ellipsis)


def _paint_cursor(canvas: _Canvas, step: float, glyphs: Glyphs) -> list[int]:
    """A dotted line: a third of the cells are written again when it moves. Returns the rows that changed."""
    column = canvas.column_of(step)
    if not 0 <= column < canvas.characters.shape[1]:
        return []
    rows = [row for row in np.flatnonzero(canvas.characters[:, column] == ord(" ")).tolist() if not row % 3]
    for row in rows:
        canvas.mark(row, column, glyphs.vertical, "dim")
    return rows


def _values(layer: Layer, chart: Chart) -> tuple[Floats, Floats]:
    """Steps and values of a layer, logarithms on a logarithmic scale. Views: do not keep them."""
    x, y = np.asarray(layer.series.steps), _smoothed(layer, chart.window.smoothing)
    if chart.log_scale:
        y = np.log10(y, out=np.full(len(y), np.nan), where=y > 0)
    return x, y


def _finite(values: Floats, layer: Layer, chart: Chart) -> Floats:
    """The finite ones of a layer's values; no copy where all are known to be finite."""
    return values[np.isfinite(values)] if layer.series.not_finite or chart.log_scale else values


def _scaled(value: float, chart: Chart) -> float:
    """A value's height on the axis; nan where a logarithmic scale has none."""
    return value if not chart.log_scale else math.log10(value) if value > 0 else math.nan


def _smoothed(layer: Layer, smoothing: Smoothing) -> Floats:
    if layer.look != "smoothed" or smoothing == "none":
        return np.asarray(layer.series.values)
    if smoothing == "0.9":  # a series keeps this average as it grows
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
        y = _finite(y, layer, chart)
        if len(y):
            fence = LOG_FENCE if chart.log_scale else FENCE
            low, high = robust_range(y, fence) if chart.window.is_robust else full_range(y)
            lows.append(low)
            highs.append(high)
    parts = LOG_PARTS if chart.log_scale else 4
    return value_range(min(lows, default=math.nan), max(highs, default=math.nan), parts)


def _paint_line(canvas: _Canvas, layer: Layer, chart: Chart, glyphs: Glyphs) -> Columns:
    """Paint a layer as a line; returns what it does in each column, at the resolution of its dots."""
    rows, columns = canvas.characters.shape
    x, y = _values(layer, chart)
    if glyphs.braille:
        reduced = reduce_columns(x, y, canvas.start, canvas.end, columns * BRAILLE_COLUMNS)
        low, high = connect(reduced)
        canvas.paint(_braille(fill(low, high, canvas.bottom, canvas.top, rows * BRAILLE_ROWS)), layer.role)
    else:
        reduced = reduce_columns(x, y, canvas.start, canvas.end, columns)
        low, high = connect(reduced)
        dots = fill(low, high, canvas.bottom, canvas.top, rows)
        glyph = glyphs.raw_line if layer.look == "raw" else glyphs.line
        canvas.paint(np.where(dots, ord(glyph), 0).astype(np.uint32), layer.role)
    return reduced


def _paint_points(canvas: _Canvas, layer: Layer, chart: Chart, glyphs: Glyphs) -> Columns:
    """Paint a layer as points; returns what it does in each column, at the resolution of its dots."""
    rows, columns = canvas.characters.shape
    x, y = _values(layer, chart)
    if glyphs.braille:
        reduced = reduce_columns(x, y, canvas.start, canvas.end, columns * BRAILLE_COLUMNS)
        canvas.paint(_braille(point_dots(reduced.last, canvas.bottom, canvas.top, rows * BRAILLE_ROWS)), layer.role)
        return reduced
    reduced = reduce_columns(x, y, canvas.start, canvas.end, columns)
    for column, row in enumerate(rows_of(reduced.last, canvas.bottom, canvas.top, rows).tolist()):
        if row >= 0:
            canvas.mark(row, column, glyphs.dot, layer.role)
    return reduced


def _braille(dots: Dots) -> NDArray[np.uint32]:
    cells = braille_cells(dots).astype(np.uint32)
    return np.where(cells, cells + BRAILLE, 0).astype(np.uint32)


def _markers(
    canvas: _Canvas, layer: Layer, reduced: Columns, chart: Chart, glyphs: Glyphs
) -> Iterator[tuple[int, int, str, str, str]]:
    """Where values are above or below the range, or not finite: row, column, glyph, meaning, role."""
    rows, columns = canvas.characters.shape
    dots = len(reduced.high) // columns
    span = 1e-9 * (canvas.top - canvas.bottom)
    outside = "outside the range"
    for column in np.unique(np.flatnonzero(reduced.high > canvas.top + span) // dots).tolist():
        yield 0, column, glyphs.above, outside, layer.role
    for column in np.unique(np.flatnonzero(reduced.low < canvas.bottom - span) // dots).tolist():
        yield rows - 1, column, glyphs.below, outside, layer.role
    x, values = np.asarray(layer.series.steps), np.asarray(layer.series.values)
    if chart.log_scale:
        for column in _columns_of(canvas, x[values <= 0]):
            yield rows - 1, column, glyphs.below, outside, layer.role
    if layer.series.not_finite:
        for column in _columns_of(canvas, x[~np.isfinite(values)]):
            yield rows - 1, column, glyphs.not_finite, "not finite", "bad"


def _columns_of(canvas: _Canvas, steps: Floats) -> list[int]:
    shown = steps[(steps >= canvas.start) & (steps <= canvas.end)]
    columns = canvas.characters.shape[1]
    place = (shown - canvas.start) / (canvas.end - canvas.start) * columns
    return sorted(set(np.minimum(place.astype(np.int64), columns - 1).tolist()))


def _mark_point(canvas: _Canvas, step: float, value: float, glyph: str, role: str, chart: Chart) -> None:
    rows, columns = canvas.characters.shape
    shown = _scaled(value, chart)
    if math.isfinite(shown) and canvas.start <= step <= canvas.end:
        row = int(rows_of(np.array([shown]), canvas.bottom, canvas.top, rows)[0])
        canvas.mark(row, min(columns - 1, canvas.column_of(step)), glyph, role)


def _labels(chart: Chart, rows: int, start: float, end: float) -> list[str]:
    return _value_labels(rows, *_limits_of(chart, start, end), bool(chart.log_scale)) if rows >= 2 else []


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


def _spans(canvas: _Canvas, row: int) -> list[Span]:
    """A row of the canvas as spans of equal role."""
    roles = canvas.roles[row]
    text = canvas.characters[row].tobytes().decode(f"utf-32-{sys.byteorder[0]}e")
    cuts = [0, *(np.flatnonzero(roles[1:] != roles[:-1]) + 1).tolist(), len(text)]
    return [(text[start:stop], canvas.names[roles[start]]) for start, stop in pairwise(cuts)]
