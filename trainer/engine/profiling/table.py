"""Rows of a profile as text: the columns that fit, and the longest rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainer.engine.profiling.rows import By, Row

NARROWEST_NAME, WIDEST_NAME = 36, 64
FEWEST_COLUMNS = 2


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table. The columns of lowest `importance` are dropped first if the width is too small. `text`
    takes a row and the step's seconds.
    """

    title: str
    width: int
    importance: int
    text: Callable[[Row, float], str]


def percent(fraction: float) -> str:
    """Formats a fraction in percent, without the sign."""
    return f"{100 * fraction:.1f}"


_COLUMNS = (
    _Column("calls", 6, 4, lambda row, step: f"{row.calls:g}"),
    _Column("ms", 9, 9, lambda row, step: f"{1000 * row.seconds:.3f}"),
    _Column("share%", 7, 8, lambda row, step: percent(row.seconds / step)),
    _Column("GFLOP/s", 8, 7, lambda row, step: "-" if row.gflops is None else f"{row.gflops:.1f}"),
    _Column("GB/s", 7, 6, lambda row, step: f"{row.gbytes:.1f}"),
    _Column("roof%", 6, 5, lambda row, step: f"{100 * row.of_roofline:.0f}" if row.roofline else "-"),
    _Column("wait%", 6, 3, lambda row, step: percent(row.waiting / row.seconds if row.seconds else 0.0)),
    _Column("skew%", 6, 2, lambda row, step: f"{100 * row.imbalance:.0f}"),
    _Column("MB", 9, 1, lambda row, step: f"{row.nbytes / 1e6:.2f}"),
    _Column("MFLOP", 11, 0, lambda row, step: "-" if row.operations is None else f"{row.operations / 1e6:.2f}"),
)


def table(rows: Sequence[Row], by: By, step: float, width: int, count: int) -> list[str]:
    """Formats the first `count` rows of a step of `step` seconds as lines; `width` is at least 40."""
    shown = rows[:count]
    columns, room = _that_fit(width, max(len(_name(row, by, WIDEST_NAME)) for row in rows))
    lines = [by.ljust(room) + "".join(column.title.rjust(column.width) for column in columns)]
    for row in shown:
        figures = "".join(column.text(row, step).rjust(column.width) for column in columns)
        lines.append(_name(row, by, room).ljust(room) + figures)
    if len(rows) > count:
        rest = sum(row.seconds for row in rows[count:])
        lines.append(f"… and {len(rows) - count} more: {1000 * rest:.3f} ms")
    return lines


def _that_fit(width: int, longest: int) -> tuple[list[_Column], int]:
    """Returns the columns that leave enough width for the names, and the width of the names."""
    columns = list(_COLUMNS)
    name = min(max(longest, 6), WIDEST_NAME)
    least = min(name, NARROWEST_NAME)
    while len(columns) > FEWEST_COLUMNS and width - sum(column.width for column in columns) < least:
        columns.remove(min(columns, key=lambda column: column.importance))
    room = width - sum(column.width for column in columns)
    return columns, max(1, min(room, name))


def _name(row: Row, by: By, room: int) -> str:
    """Returns the row's name; the kernel's name is cut rather than the shape, which distinguishes similar launches."""
    if by == "module":
        return _cut(row.module or "(none or several)", room)
    rest = f" {row.shape}".rstrip() + (f"  {row.module}" if by == "launch" and row.module else "")
    return _cut(_cut(row.kernel, max(12, room - len(rest))) + rest, room)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"
