"""Small pieces of HTML. All text from a run is escaped here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from trainer.tui.numbers import number


def is_missing(value: Any) -> bool:
    """Whether a cell has no value: None, or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def cell(value: Any) -> str:
    """A table cell: numbers short and right-aligned, other values as text, a dash for a missing value."""
    if is_missing(value):
        return '<td class="number">-</td>'
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape(str(value))}</td>"
    return f'<td class="number">{number(float(value))}</td>'


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; the heads of number columns are right-aligned.

    Columns without any value are left out, and so are rows that have a name and no value.
    """
    listed = [row for row in rows if len(row) < 2 or not all(map(is_missing, row[1:]))]
    shown = [
        column for column in range(len(header)) if not listed or not all(is_missing(row[column]) for row in listed)
    ]
    head = "".join(
        f'<th class="number">{escape(header[column])}</th>'
        if listed and all(isinstance(row[column], int | float) or row[column] is None for row in listed)
        else f"<th>{escape(header[column])}</th>"
        for column in shown
    )
    body = "".join(f"<tr>{''.join(cell(row[column]) for column in shown)}</tr>" for row in listed)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def matrix(classes: Sequence[str], counts: Sequence[Sequence[float]]) -> str:
    """A confusion matrix, true classes in rows and predicted ones in columns, each cell as dark as its share."""
    head = "".join(f'<th class="number">{escape(name)}</th>' for name in classes)
    rows = []
    for name, row in zip(classes, counts, strict=True):
        total = sum(row) or 1.0
        cells = "".join(
            f'<td class="number" title="{count / total:.1%} of {escape(name, quote=True)}" '
            f'style="background:rgb(0 114 178 / {0.6 * count / total:.2f})">{number(count)}</td>'
            for count in row
        )
        rows.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    return (
        '<div class="scroll"><table class="matrix">'
        f'<tr><td></td><th colspan="{len(classes)}">predicted class</th></tr>'
        f"<tr><th>true class</th>{head}</tr>{''.join(rows)}</table></div>"
    )


def folded(title: str, content: str, *, is_open: bool = False) -> str:
    """Content that is shown after a click on its title, or from the start."""
    return f"<details{' open' * is_open}><summary>{escape(title)}</summary>{content}</details>"


def preformatted(text: str, bold: int = 0) -> str:
    """Preformatted text, its first `bold` characters in bold."""
    strong = f"<strong>{escape(text[:bold])}</strong>" if bold else ""
    return f"<pre>{strong}{escape(text[bold:])}</pre>"
