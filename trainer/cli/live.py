"""A run as a table that is updated during training, for notebooks: HTML if supported, text otherwise."""

from __future__ import annotations

import html
import importlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from trainer.rundir import EndEvent, MetricEvent, PhaseEvent, Record, ResumedEvent, RunEvent, WarningEvent

SECONDS_BETWEEN = 0.5
"""Minimum seconds between two updates, except for the last one."""
LEFT_OUT = ("train/learning_rate", "train/samples_per_second")
MOST_WARNINGS = 5


class RunTable:
    """A notebook's view of a run: a row per validation, one for the latest training metrics, and the phase."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, float]] = {}
        self.final: dict[str, float] = {}
        self.title, self.status = "", "starting"
        self.warnings: list[str] = []

    def add(self, record: Record) -> None:
        """Adds one record."""
        match record.event:
            case MetricEvent() as event:
                self._measured(event)
            case PhaseEvent() as event:
                self.status = _phase(event)
            case RunEvent() as event:
                self.title = event.name
            case ResumedEvent() as event:
                self.rows = {step: row for step, row in self.rows.items() if step <= event.from_step}
            case WarningEvent() as event:
                self.warnings = [*self.warnings, event.message][-MOST_WARNINGS:]
            case EndEvent() as event:
                reason = f": {event.reason}" if event.reason else ""
                self.status = f"{event.status} at step {event.step or 0}{reason}"

    def _measured(self, event: MetricEvent) -> None:
        values = {f"{event.split}/{name}": float(value) for name, value in event.values.items()}
        values = {name: value for name, value in values.items() if not name.startswith(LEFT_OUT)}
        if event.final:
            self.final.update(values)
            return
        last = max(self.rows, default=-1)
        if last not in (-1, event.step) and all(name.startswith(("epoch", "train/")) for name in self.rows[last]):
            del self.rows[last]  # training metrics since the last validation
        self.rows.setdefault(event.step, {"epoch": float(event.epoch)}).update(values)

    def columns(self) -> list[str]:
        """The column names, in the order of their first appearance."""
        return list(dict.fromkeys(name for row in self.rows.values() for name in row))

    def cells(self) -> list[list[str]]:
        """The rows as text, the header first."""
        columns = self.columns()
        body = [[str(step), *(_number(row.get(name)) for name in columns)] for step, row in sorted(self.rows.items())]
        return [["step", *columns], *body]

    def _foot(self) -> list[str]:
        numbers = [f"{name} {_number(value)}" for name, value in self.final.items()]
        return [", ".join(numbers)] * bool(numbers) + self.warnings

    def __repr__(self) -> str:
        cells = self.cells()
        widths = [max(len(row[index]) for row in cells) for index in range(len(cells[0]))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
        return "\n".join([f"{self.title}: {self.status}".lstrip(": "), *(lines if self.rows else []), *self._foot()])

    def _repr_html_(self) -> str:
        head, *body = [[html.escape(cell) for cell in row] for row in self.cells()]
        parts = [f"<p><b>{html.escape(self.title)}</b> {html.escape(self.status)}</p>"]
        if body:
            rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in body)
            parts.append(f"<table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>{rows}</table>")
        return "".join([*parts, *(f"<p>{html.escape(line)}</p>" for line in self._foot())])


class LiveTable:
    """Shows a table with `display`, and updates it once enough time has passed; any thread may add records."""

    def __init__(self, display: Callable[..., Any], clock: Callable[[], float] = time.monotonic) -> None:
        self.table = RunTable()
        self._clock, self._last = clock, clock()
        self._lock = threading.Lock()
        self._handle = display(self.table, display_id=True)

    def __call__(self, record: Record) -> None:
        with self._lock:
            self.table.add(record)
            now = self._clock()
            if isinstance(record.event, EndEvent) or now - self._last >= SECONDS_BETWEEN:
                self._last = now
                self._handle.update(self.table)


def live_table() -> LiveTable | None:
    """A live table if this process is a notebook kernel; otherwise None. IPython is used only if already imported."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if not hasattr(shell, "kernel"):
        return None
    return LiveTable(importlib.import_module("IPython.display").display)


def _phase(event: PhaseEvent) -> str:
    words = [event.name]
    if event.done is not None:
        words.append(f"{event.done:g}" + (f" of {event.total:g}" if event.total else ""))
    words += [text for text in (event.unit, event.now) if text]
    if event.state == "failed":
        words.append("failed")
    if event.remaining:
        words.append(f"{event.remaining:.0f} s left")
    return " ".join(words)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
