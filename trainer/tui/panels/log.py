"""The last lines of the log: events, warnings, and the output of the worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from trainer.tui.frame import Frame
from trainer.tui.text import Line, wrap
from trainer.tui.view import LogLine

_ROLES = {"warning": "warn", "error": "bad", "critical": "bad", "good": "good", "debug": "dim", "output": "text"}

LEVELS: dict[str, frozenset[str] | None] = {
    "all": None,
    "warnings and errors": frozenset(("warning", "error", "critical")),
    "errors": frozenset(("error", "critical")),
}
"""The filters by level; None: all lines."""


class LogFilter(NamedTuple):
    """A filter of the log: lines of a level of `LEVELS` that contain a text."""

    level: str = "all"
    text: str = ""

    def next_level(self) -> LogFilter:
        """The filter with the next level; after the last level, the first one."""
        levels = list(LEVELS)
        return LogFilter(levels[(levels.index(self.level) + 1) % len(levels)], self.text)

    def keeps(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        """The lines that pass the filter."""
        levels, text = LEVELS[self.level], self.text.lower()
        return (
            line
            for line in lines
            if (levels is None or line.level in levels) and (not text or text in line.message.lower())
        )

    @property
    def title(self) -> str:
        """The title of the log."""
        parts = [] if self.level == "all" else [self.level]
        parts += [f"with {self.text!r}"] if self.text else []
        return "log" + ("  " + ", ".join(parts) if parts else "")


EVERY_LINE = LogFilter()


def draw_log(frame: Frame, width: int, height: int, shown: LogFilter = EVERY_LINE) -> list[Line]:
    """The newest lines that fit, the newest last; the newest `frame.scroll` lines are skipped."""
    lines: list[Line] = []
    for line in islice(shown.keeps(reversed(frame.view.log)), frame.scroll, None):
        lines[:0] = _wrapped(line, width)
        if len(lines) >= height:
            break
    nothing = "nothing yet" if shown == EVERY_LINE else "no such line"
    return lines[-height:] or [((nothing, "dim"),)]


def _wrapped(line: LogLine, width: int) -> list[Line]:
    """One entry; text that does not fit continues below, indented."""
    role = _ROLES.get(line.level, "text")
    if line.level == "output":
        return [((piece, role),) for piece in wrap(line.message, width)]
    time = f"{datetime.fromtimestamp(line.time):%H:%M:%S} "
    text = f"{line.level}: {line.message}" if line.level in ("warning", "error", "critical") else line.message
    first, *others = wrap(text, max(1, width - len(time)))
    return [((time, "dim"), (first, role)), *(((" " * len(time), "dim"), (piece, role)) for piece in others)]
