"""The evaluation screen: a report's JSON as what it is — a confusion matrix, curves, a table — by its kind."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer.tui.axes import value_range
from trainer.tui.glyphs import Glyphs
from trainer.tui.listing import Column, Row, TableState, draw_table
from trainer.tui.numbers import number
from trainer.tui.text import Line, crop, crop_line, printable

MOST_CURVES = 6
CURVE_ROLES = ("train", "valid", "third", "second", "rate", "best")


@dataclass(frozen=True)
class Curve:
    """One line of a diagram; x and y are between 0 and 1 for precision and recall, any for others."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Report:
    """What can be drawn of a report: numbers above, then a matrix, curves or a table, whichever it has.

    Attributes:
        matrix: counts of each true class (row) and predicted class (column), with the classes' names.
        axes: what stands at the curves' axes.
    """

    numbers: Mapping[str, Any] = field(default_factory=dict)
    matrix: Sequence[Sequence[float]] = ()
    classes: Sequence[str] = ()
    curves: Sequence[Curve] = ()
    axes: tuple[str, str] = ("", "")
    columns: Sequence[Column] = ()
    rows: Sequence[Row] = ()


def report_of(content: Any) -> Report:
    """The report in a file's JSON; of a kind that is not known, its numbers and its first table."""
    if not isinstance(content, dict):
        return Report(numbers={"": "the report's file is missing or damaged"})
    data = content.get("data", content)
    if not isinstance(data, dict):
        return Report(numbers={"": json.dumps(data)})
    reader = KINDS.get(str(content.get("kind")), _anything)
    try:
        return reader(data)
    except (KeyError, TypeError, ValueError, IndexError):
        return _anything(data)


def draw_report(report: Report, width: int, height: int, state: TableState, glyphs: Glyphs) -> list[Line]:
    """The report in `height` lines of `width` cells."""
    lines = _draw_numbers(report.numbers, width, glyphs)[: max(1, height // 3)]
    room = height - len(lines)
    if report.matrix:
        return [*lines, *_draw_matrix(report, width, room, state, glyphs)]
    if report.curves:
        return [*lines, *_draw_curves(report, width, room, glyphs)]
    if report.rows:
        return [*lines, *draw_table(report.columns, report.rows, state, width, room, glyphs)]
    return lines or [(("nothing in it", "dim"),)]


# --- reading --------------------------------------------------------------------------------------------------------


def _confusion_matrix(data: Mapping[str, Any]) -> Report:
    counts = [[float(cell) for cell in row] for row in data["counts"]]
    names = [str(name) for name in data.get("classes") or range(len(counts))]
    right = sum(counts[index][index] for index in range(len(counts)))
    total = sum(map(sum, counts))
    told = {"right": f"{right:g} of {total:g}" + (f" ({right / total:.1%})" if total else "")}
    rows = [
        Row(tuple(_short(cell) for cell in (name, *row)), (name, *row)) for name, row in zip(names, counts, strict=True)
    ]
    columns = (Column("true class", most=24), *(Column(name, is_number=True, most=8) for name in names))
    return Report({**told, **_scalars(data)}, counts, names, columns=columns, rows=rows)


def _curves(data: Mapping[str, Any]) -> Report:
    axes = str(data["x"]), str(data["y"])
    curves = [
        Curve(str(curve.get("name", "")), [_float(x) for x in curve["x"]], [_float(y) for y in curve["y"]])
        for curve in data["curves"]
    ]
    numbers = {key: value for key, value in _scalars(data).items() if key not in ("x", "y")}
    return Report(numbers, curves=curves, axes=axes)


def _table(data: Mapping[str, Any]) -> Report:
    return _with_rows(_scalars(data), next(value for value in data.values() if _is_rows(value)))


def _coco(data: Mapping[str, Any]) -> Report:
    """The figures, and a row for each class; -1 is COCO's word for nothing to measure."""
    rows = [{key: None if value == -1 else value for key, value in row.items()} for row in data["classes"]]
    return _with_rows({key: value for key, value in data["stats"].items() if value != -1}, rows)


def _anything(data: Mapping[str, Any]) -> Report:
    rows: list[Mapping[str, Any]] = next((value for value in data.values() if _is_rows(value)), [])
    return _with_rows(_scalars(data), rows)


def _with_rows(numbers: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Report:
    keys = list(dict.fromkeys(str(key) for row in rows for key in row))
    columns = [
        Column(key, all(isinstance(row.get(key), int | float) or row.get(key) is None for row in rows), most=32)
        for key in keys
    ]
    made = [Row(tuple(_short(row.get(key)) for key in keys), tuple(_key(row.get(key)) for key in keys)) for row in rows]
    return Report(numbers, columns=columns, rows=made)


def _scalars(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if isinstance(value, int | float | str) and key != "kind"}


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _short(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-" if value is None else printable(str(value))
    return number(float(value))


def _key(value: Any) -> Any:
    """What a cell is sorted by; numbers that are not finite are texts in JSON."""
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    return str(value) if isinstance(value, dict | list) else value


def _float(value: Any) -> float:
    return float(value) if value is not None else math.nan


KINDS: dict[str, Callable[[Mapping[str, Any]], Report]] = {
    "confusion_matrix": _confusion_matrix,
    "curve": _curves,
    "per_class": _table,
    "coco": _coco,
}


# --- drawing --------------------------------------------------------------------------------------------------------


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


def _draw_matrix(report: Report, width: int, height: int, state: TableState, glyphs: Glyphs) -> list[Line]:
    """A shade for each cell by its share of the true class, with the share in percent where there is room."""
    names, counts = report.classes, report.matrix
    margin = min(max(map(len, names)), max(6, width // 4))
    cell = max(2, min(6, (width - margin - 2) // max(1, len(names))))
    shown = min(len(names), (width - margin - 2) // cell)
    heads = "".join(crop(name, cell - 1, "").rjust(cell) for name in names[:shown])
    lines: list[Line] = [((" " * margin + " " + heads, "dim"),)]
    first = min(state.selected, max(0, len(names) - (height - 1)))
    for index in range(first, min(len(names), first + height - 1)):
        total = sum(counts[index]) or 1.0
        spans: list[tuple[str, str]] = [(crop(names[index], margin, glyphs.ellipsis).rjust(margin) + " ", "dim")]
        for column in range(shown):
            share = counts[index][column] / total
            text = _share(share, cell, glyphs)
            role = "good" if index == column else "bad" if share >= 0.1 else "warn" if share > 0 else "dim"
            spans.append((text, role))
        lines.append(tuple(spans))
    return lines


def _share(share: float, cell: int, glyphs: Glyphs) -> str:
    if share == 0:
        return glyphs.separator.strip()[:1].rjust(cell)
    if cell >= 4:
        return f"{100 * share:.0f}".rjust(cell)
    return glyphs.shades[min(len(glyphs.shades) - 1, max(1, math.ceil(share * (len(glyphs.shades) - 1))))].rjust(cell)


def _draw_curves(report: Report, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """All curves in one diagram, the first few of many classes; a letter and a colour each."""
    import numpy as np

    from trainer.tui.charts import Chart, Layer
    from trainer.tui.plot import draw_diagram
    from trainer.tui.series import Series

    layers = []
    for index, curve in enumerate(report.curves[:MOST_CURVES]):
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
