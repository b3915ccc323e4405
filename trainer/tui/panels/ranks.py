"""The processes of a training in a table, the slowest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.tui.frame import Frame
from trainer.tui.listing import Column, Row, TableState, draw_table
from trainer.tui.numbers import size
from trainer.tui.text import Line, printable
from trainer.tui.view import View

COLUMNS = (
    Column("rank", is_number=True),
    Column("host", rank=3, most=24),
    Column("pid", is_number=True, rank=5),
    Column("state", most=20),
    Column("step", is_number=True, rank=4),
    Column("step ms", is_number=True),
    Column("wait", is_number=True),
    Column("memory", is_number=True, rank=2),
)

_ROLES = {"silent": "bad", "failed": "bad", "waiting": "dim", "done": "good"}


def rank_rows(view: View) -> list[Row]:
    """A row for each process, the slowest first."""
    return [_row(fields) for fields in view.ranks]


NOTHING_SELECTED = TableState(selected=-1)


def draw_ranks(frame: Frame, width: int, height: int, state: TableState = NOTHING_SELECTED) -> list[Line]:
    """Draws the table of the processes."""
    rows = rank_rows(frame.view)
    if not rows:
        return [(("this run has one process", "dim"),)]
    return draw_table(COLUMNS, rows, state, width, height, frame.glyphs)


def _row(fields: Mapping[str, Any]) -> Row:
    rank, pid, step, step_ms, wait, memory = (
        _number(fields.get(name)) for name in ("rank", "pid", "step", "step_ms", "wait", "memory")
    )
    host, state = (printable(str(fields.get(name, "-"))) for name in ("host", "state"))
    cells = (
        _whole(rank), host, _whole(pid), state, _whole(step),
        "-" if step_ms is None else f"{step_ms:.4g}", "-" if wait is None else f"{wait:.0%}",
        "-" if memory is None else size(memory),
    )  # fmt: skip
    role = "warn" if state.startswith("idle") else _ROLES.get(state, "text")
    return Row(cells, (rank, host, pid, state, step, step_ms, wait, memory), role)


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
