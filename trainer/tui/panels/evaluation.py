"""The evaluation screen: the numbers of a report, and its matrix, curves or table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trainer.tui.axes import value_range
from trainer.tui.glyphs import Glyphs
from trainer.tui.listing import Column, Row, TableState, draw_table, place_in_table
from trainer.tui.numbers import number
from trainer.tui.reports import Report
from trainer.tui.text import Line, crop, crop_line

MAX_CURVES = 6
CURVE_ROLES = ("train", "valid", "third", "second", "rate", "best")


def draw_report(
    report: Report, width: int, height: int, state: TableState, glyphs: Glyphs, view: int = 0, *,
    has_counts: bool = False,
) -> list[Line]:  # fmt: skip
    """The numbers of the report and one of its views, in `height` lines of `width` cells.

    Args:
        has_counts: a confusion matrix shows counts rather than percent of the true class.
    """
    lines = _draw_numbers(report.numbers, width, glyphs)[: max(1, height // 3)]
    room = height - len(lines)
    shown = shown_view(report, view)
    if shown == "matrix":
        return [*lines, *_draw_matrix(report, width, room, state, glyphs, has_counts=has_counts)]
    if shown == "curves":
        return [*lines, *_draw_curves(report, width, room, glyphs)]
    if shown == "table":
        return [*lines, *draw_table(*table_of(report), state, width, room, glyphs)]
    return lines or [(("the report is empty", "dim"),)]


def shown_view(report: Report, view: int) -> str:
    """The shown view: matrix, curves, table or items; empty for a report without views."""
    return report.views[view % len(report.views)] if report.views else ""


def place_in_report(
    report: Report, width: int, height: int, state: TableState, glyphs: Glyphs, x: int, y: int
) -> tuple[int | None, int | None]:
    """The row, or the column, at a cell of a report whose table is shown; see `place_in_table`."""
    above = len(_draw_numbers(report.numbers, width, glyphs)[: max(1, height // 3)])
    return place_in_table(*table_of(report), state, width, height - above, x, y - above)


def table_of(report: Report) -> tuple[list[Column], list[Row]]:
    """The report's table as it is drawn."""
    columns = [
        Column(name, all(isinstance(row[index], int | float) or row[index] is None for row in report.rows), most=32)
        for index, name in enumerate(report.header)
    ]
    return columns, [Row(tuple(_short(cell) for cell in row), tuple(row)) for row in report.rows]


def _short(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-" if value is None else str(value)
    return number(float(value))


def _draw_numbers(numbers: Mapping[str, Any], width: int, glyphs: Glyphs) -> list[Line]:
    lines: list[Line] = []
    line: Line = ()
    for name, value in numbers.items():
        part: Line = ((f"{name} " if name else "", "dim"), (_short(value) + "   ", "strong"))
        if line and sum(len(text) for text, _ in (*line, *part)) > width:
            lines.append(crop_line(line, width, glyphs.ellipsis))
            line = ()
        line = (*line, *part)
    return [*lines, crop_line(line, width, glyphs.ellipsis)] if line else lines


def _draw_matrix(
    report: Report, width: int, height: int, state: TableState, glyphs: Glyphs, *, has_counts: bool
) -> list[Line]:
    """Draws true classes down, predicted ones across: percent of the true class or counts, shades if space is short."""
    names, counts = report.classes, report.matrix
    margin = min(max(*map(len, names), len(TRUE_AXIS)), max(len(TRUE_AXIS), width // 4))
    digits = max((len(f"{cell:g}") for row in counts for cell in row), default=1) if has_counts else 3
    room = (width - margin - 1) // max(1, len(names))
    cell = max(2, min(max(6, digits + 1), room))
    shown = min(len(names), (width - margin - 1) // cell)
    unit = "counts" if has_counts else "% of the true class"
    lines: list[Line] = [((" " * (margin + 1) + f"predicted ({unit})", "text"),)]
    heads = "".join(crop(name, cell - 1, "").rjust(cell) for name in names[:shown])
    lines.append((((TRUE_AXIS).rjust(margin), "text"), (" " + heads, "dim")))
    first = min(state.selected, max(0, len(names) - (height - len(lines))))
    for index in range(first, min(len(names), first + height - len(lines))):
        total = sum(counts[index]) or 1.0
        spans: list[tuple[str, str]] = [(crop(names[index], margin, glyphs.ellipsis).rjust(margin) + " ", "dim")]
        for column in range(shown):
            count = counts[index][column]
            share = count / total
            number = f"{count:g}" if has_counts else f"{100 * share:.0f}"
            role = "good" if index == column else "bad" if share >= MANY else "warn" if share > 0 else "dim"
            spans.append((_cell(share, number, cell, glyphs), role))
        lines.append(tuple(spans))
    return [*lines, *_confusions(report, height - len(lines))]


def _confusions(report: Report, height: int) -> list[Line]:
    """The most frequent confusions, as many as fit into `height` lines; empty if there is no room."""
    names, counts = report.classes, report.matrix
    pairs = [(counts[true][other], true, other) for true in range(len(names)) for other in range(len(names))
             if true != other and counts[true][other]]  # fmt: skip
    if not pairs or height < 3:
        return []
    pairs.sort(key=lambda pair: -pair[0])
    head: list[Line] = [(("", "text"),), (("most frequent confusions", "text"),)]
    return head + [
        ((f"predicted {names[other]}, true {names[true]}  ", "dim"),
         (f"{count:g} ({count / (sum(counts[true]) or 1):.0%} of {names[true]})", "warn"))
        for count, true, other in pairs[: height - len(head)]
    ]  # fmt: skip


TRUE_AXIS = "true"
MANY = 0.1
"""Minimum share of a true class for a confusion that is colored as bad."""


def _cell(share: float, number: str, cell: int, glyphs: Glyphs) -> str:
    if share == 0:
        return glyphs.separator.strip()[:1].rjust(cell)
    if cell > len(number):
        return number.rjust(cell)
    return glyphs.shades[min(len(glyphs.shades) - 1, max(1, math.ceil(share * (len(glyphs.shades) - 1))))].rjust(cell)


def _draw_curves(report: Report, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draws the curves in one diagram, at most MAX_CURVES, with a letter and a color for each."""
    import numpy as np

    from trainer.tui.charts import Chart, Layer
    from trainer.tui.plot import draw_diagram
    from trainer.tui.series import Series

    layers = []
    for index, curve in enumerate(report.curves[:MAX_CURVES]):
        series = Series()
        for at in np.argsort(np.asarray(curve.x), kind="stable").tolist():
            series.append(curve.x[at], curve.y[at])
        letter = chr(ord("A") + index)
        layers.append(Layer(f"{letter} {curve.name}".rstrip(), series, "line", CURVE_ROLES[index], mark=letter))
    low, high = value_range(
        min((min(layer.series.steps) for layer in layers if len(layer.series)), default=0.0),
        max((max(layer.series.steps) for layer in layers if len(layer.series)), default=1.0),
    )
    legend: Line = tuple((f"{layer.name}  ", layer.role) for layer in layers)
    more = len(report.curves) - len(layers)
    legend = (*legend, (f"and {more} more", "dim")) if more > 0 else legend
    axes: Line = ((f"{report.axes[1]} over {report.axes[0]}  ", "dim"),)
    head = crop_line((*axes, *legend), width, glyphs.ellipsis)
    return [head, *draw_diagram(Chart("", tuple(layers)), low, high, width, max(3, height - 1), glyphs)]
