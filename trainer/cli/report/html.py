"""Small pieces of HTML. Whatever comes from a run is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from trainer.tui.numbers import number


def cell(value: Any) -> str:
    """A table's cell: numbers short and to the right, everything else as text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape('-' if value is None else str(value))}</td>"
    return f'<td class="number">{number(float(value))}</td>'


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; a column's head stands to the right where the column is of numbers."""
    listed = list(rows)
    numeric = [
        all(isinstance(row[column], int | float) or row[column] is None for row in listed)
        for column in range(len(header))
    ]
    head = "".join(
        f'<th class="number">{escape(name)}</th>' if is_number and listed else f"<th>{escape(name)}</th>"
        for name, is_number in zip(header, numeric, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in listed)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def matrix(classes: Sequence[str], counts: Sequence[Sequence[float]]) -> str:
    """A confusion matrix, each cell as dark as its share of the true class."""
    head = "".join(f'<th class="number">{escape(name)}</th>' for name in classes)
    rows = []
    for name, row in zip(classes, counts, strict=True):
        total = sum(row) or 1.0
        cells = "".join(
            f'<td class="number" style="background:rgb(0 114 178 / {0.6 * count / total:.2f})">{number(count)}</td>'
            for count in row
        )
        rows.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    return f'<div class="scroll"><table><tr><th>true class</th>{head}</tr>{"".join(rows)}</table></div>'


def folded(title: str, content: str) -> str:
    """Content that shows once its title is clicked."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def preformatted(text: str) -> str:
    """Text as it stands."""
    return f"<pre>{escape(text)}</pre>"
