"""Tables of text: columns as wide as what stands in them, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[bool], width: int | None) -> str:
    """Header and rows in aligned columns, two spaces apart, without trailing spaces.

    Args:
        right: for each column, whether it is set to the right, as numbers are.
        width: the most cells of a line; what is longer is cut. None: as long as it gets.
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
