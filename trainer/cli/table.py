"""Text tables: columns as wide as their contents, numbers right-aligned."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[bool], width: int | None) -> str:
    """Header and rows in aligned columns, two spaces apart, without trailing spaces.

    Args:
        right: whether each column is right-aligned, as for numbers.
        width: maximum cells per line; longer lines are cut. None: no limit.
    """
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = []
    for row in (header, *rows):
        cells = (
            cell.rjust(wide) if is_right else cell.ljust(wide)
            for cell, wide, is_right in zip(row, widths, right, strict=True)
        )
        lines.append("  ".join(cells).rstrip()[:width])
    return "\n".join(lines)
