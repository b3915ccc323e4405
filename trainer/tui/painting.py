"""Paints the layers of a chart onto a canvas: lines, points, markers of clipped values, the cross-hair."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from trainer.tui.canvas import BRAILLE, Canvas
from trainer.tui.chart_values import scaled, values_of
from trainer.tui.charts import Chart, Layer
from trainer.tui.glyphs import Glyphs
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
)


def paint(chart: Chart, canvas: Canvas, glyphs: Glyphs) -> str:
    """Paints all of the chart except the cross-hair; returns the meaning of the markers, empty without markers."""
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


def paint_cursor(canvas: Canvas, step: float, glyphs: Glyphs) -> list[int]:
    """Paints a dotted line, so that a move rewrites only a third of the cells. Returns the changed rows."""
    column = canvas.column_of(step)
    if not 0 <= column < canvas.characters.shape[1]:
        return []
    rows = [row for row in np.flatnonzero(canvas.characters[:, column] == ord(" ")).tolist() if not row % 3]
    for row in rows:
        canvas.mark(row, column, glyphs.vertical, "dim")
    return rows


def _paint_line(canvas: Canvas, layer: Layer, chart: Chart, glyphs: Glyphs) -> Columns:
    """Paints a layer as a line; returns its values by column, at the resolution of its dots."""
    rows, columns = canvas.characters.shape
    x, y = values_of(layer, chart)
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


def _paint_points(canvas: Canvas, layer: Layer, chart: Chart, glyphs: Glyphs) -> Columns:
    """Paints a layer as points; returns its values by column, at the resolution of its dots."""
    rows, columns = canvas.characters.shape
    x, y = values_of(layer, chart)
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
    canvas: Canvas, layer: Layer, reduced: Columns, chart: Chart, glyphs: Glyphs
) -> Iterator[tuple[int, int, str, str, str]]:
    """Markers for values above or below the range, or not finite: row, column, glyph, meaning, role."""
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


def _columns_of(canvas: Canvas, steps: Floats) -> list[int]:
    shown = steps[(steps >= canvas.start) & (steps <= canvas.end)]
    columns = canvas.characters.shape[1]
    place = (shown - canvas.start) / (canvas.end - canvas.start) * columns
    return sorted(set(np.minimum(place.astype(np.int64), columns - 1).tolist()))


def _mark_point(canvas: Canvas, step: float, value: float, glyph: str, role: str, chart: Chart) -> None:
    rows, columns = canvas.characters.shape
    shown = scaled(value, chart)
    if math.isfinite(shown) and canvas.start <= step <= canvas.end:
        row = int(rows_of(np.array([shown]), canvas.bottom, canvas.top, rows)[0])
        canvas.mark(row, min(columns - 1, canvas.column_of(step)), glyph, role)
