"""Reports of evaluations: a matrix, curves, a table, numbers. A table has a reader of JSON for each kind.

The learner writes a report as one JSON object: `kind`, `class_names`, and the fields of the kind.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer.tui.text import printable

NOT_SHOWN = ("format", "kind", "metric", "split", "step", "epoch")
"""Scalars that are left out of the numbers."""


@dataclass(frozen=True)
class Curve:
    """One line of a diagram."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Report:
    """The content of a report.

    Attributes:
        numbers: scalars by name.
        matrix: counts of each true class (row) and predicted class (column); `classes` are their names.
        curves: lines of one diagram with the axes `axes` (x, y).
        header, rows: a table; a cell is a number, a text or None.
        pictures: for each row that is a single item, the files of its samples, relative to the run directory.
    """

    numbers: Mapping[str, Any] = field(default_factory=dict)
    matrix: Sequence[Sequence[float]] = ()
    classes: Sequence[str] = ()
    curves: Sequence[Curve] = ()
    axes: tuple[str, str] = ("", "")
    header: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    pictures: Sequence[Sequence[str]] = ()

    @property
    def views(self) -> list[str]:
        """The views of the report: matrix, curves, table, items."""
        is_of_items = bool(self.pictures)
        parts = {"matrix": self.matrix, "curves": self.curves, "table": () if is_of_items else self.rows}
        parts |= {"items": self.rows if is_of_items else ()}
        return [name for name, part in parts.items() if len(part)]


def report_of(content: Any) -> Report:
    """The report in the JSON of a file; for an unknown kind or form, its numbers and its first table."""
    if not isinstance(content, dict):
        return Report(numbers={"": "the file of the report is missing or damaged"})
    reader = KINDS.get(str(content.get("kind")), _anything)
    try:
        return reader(content)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return _anything(content)


def _confusion_matrix(data: Mapping[str, Any]) -> Report:
    counts = [[float(cell) for cell in row] for row in data["counts"]]
    names = _names(data, len(counts))
    right = sum(counts[index][index] for index in range(len(counts)))
    total = sum(map(sum, counts))
    accuracy = {"correct": f"{right:g} of {total:g}" + (f" ({right / total:.1%})" if total else "")}
    rows = [(name, *row) for name, row in zip(names, counts, strict=True)]
    return Report({**accuracy, **_scalars(data)}, counts, names, header=("true class", *names), rows=rows)


def _curves(data: Mapping[str, Any]) -> Report:
    axes = str(data["axes"]["x"]), str(data["axes"]["y"])
    names = _names(data, len(data["curves"])) if len(data["curves"]) > 1 else [""]
    curves = [
        Curve(name, [_number(x) for x in curve["x"]], [_number(y) for y in curve["y"]])
        for name, curve in zip(names, data["curves"], strict=True)
    ]
    return Report(_scalars(data), curves=curves, axes=axes)


def _per_class(data: Mapping[str, Any]) -> Report:
    columns = {str(name): [_cell(value) for value in values] for name, values in data["columns"].items()}
    count = max(map(len, columns.values()))
    rows = list(zip(_names(data, count), *columns.values(), strict=True))
    return Report(_scalars(data), header=("class", *columns), rows=rows)


def _coco(data: Mapping[str, Any]) -> Report:
    """The table of categories, and precision over recall at the lowest IoU; COCO writes -1 for a missing value."""
    rows = [{name: None if _is_nothing(value) else value for name, value in row.items()} for row in data["classes"]]
    table = _table([row for row in rows if any(isinstance(value, int | float) for value in row.values())])
    at, by_class = next(iter(data["curves"].items()), ("", {}))
    curves = [
        Curve(str(name), [_number(x) for x in curve["recall"]], [_number(y) for y in curve["precision"]])
        for name, curve in by_class.items()
    ]
    numbers = {str(name): _cell(value) for name, value in data["stats"].items() if not _is_nothing(value)}
    axes = ("recall", f"precision at IoU {at}")
    return Report(numbers, curves=curves, axes=axes, header=table.header, rows=table.rows)


def _is_nothing(value: Any) -> bool:
    """Whether a value of COCO is missing because there are no objects."""
    return isinstance(value, int | float | str) and value in (-1, "nan")


def _worst_items(data: Mapping[str, Any]) -> Report:
    """The items, the worst first."""
    items = data["items"]
    score = printable(str(data["score"]))
    rows = [
        (rank, _cell(item["score"]), printable(str(item.get("caption", ""))), printable(str(item["source"])))
        for rank, item in enumerate(items, start=1)
    ]
    pictures = [tuple(map(str, item.get("samples", ()))) for item in items]
    numbers = {"the worst by": score}
    return Report(numbers, header=("rank", score, "prediction", "item"), rows=rows, pictures=pictures)


def _anything(data: Mapping[str, Any]) -> Report:
    tables: list[Any] = [value for value in data.values() if isinstance(value, list) and value]
    found: list[Mapping[str, Any]] = next((rows for rows in tables if all(isinstance(row, dict) for row in rows)), [])
    table = _table(found)
    return Report(_scalars(data), header=table.header, rows=table.rows)


def _table(rows: Sequence[Mapping[str, Any]]) -> Report:
    keys = list(dict.fromkeys(str(key) for row in rows for key in row))
    return Report(header=keys, rows=[tuple(_cell(row.get(key)) for key in keys) for row in rows])


def _names(data: Mapping[str, Any], count: int) -> list[str]:
    """The names of the classes; their numbers if the names are missing or too few."""
    names = data.get("class_names") or []
    return [printable(str(name)) for name in names] if len(names) == count else [str(index) for index in range(count)]


def _scalars(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        str(key): _cell(value)
        for key, value in data.items()
        if isinstance(value, int | float | str) and key not in NOT_SHOWN
    }


def _cell(value: Any) -> Any:
    """A number, a text or None; non-finite numbers are texts in JSON."""
    if isinstance(value, str):
        return float(value) if value in ("nan", "inf", "-inf") else printable(value)
    if isinstance(value, list | dict):
        return json.dumps(value)
    return value


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


KINDS: dict[str, Callable[[Mapping[str, Any]], Report]] = {
    "confusion_matrix": _confusion_matrix,
    "curve": _curves,
    "per_class": _per_class,
    "coco": _coco,
    "worst_items": _worst_items,
}
