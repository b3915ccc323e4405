"""The last lines of the log: what happened, what the user should look at, and what the worker printed."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

from trainer.tui.frame import Frame
from trainer.tui.text import Line, wrap
from trainer.tui.view import LogLine

_ROLES = {"warning": "warn", "error": "bad", "critical": "bad", "good": "good", "debug": "dim", "output": "text"}


def draw_log(frame: Frame, width: int, height: int) -> list[Line]:
    """The newest lines that fit, the newest last; `frame.scroll` lines further back."""
    lines: list[Line] = []
    for line in islice(reversed(frame.view.log), frame.scroll, None):
        lines[:0] = _wrapped(line, width)
        if len(lines) >= height:
            break
    return lines[-height:] or [(("nothing yet", "dim"),)]


def _wrapped(line: LogLine, width: int) -> list[Line]:
    """One entry; what does not fit goes on below, set in."""
    role = _ROLES.get(line.level, "text")
    if line.level == "output":
        return [((piece, role),) for piece in wrap(line.message, width)]
    time = f"{datetime.fromtimestamp(line.time):%H:%M:%S} "
    told = f"{line.level}: {line.message}" if line.level in ("warning", "error", "critical") else line.message
    first, *others = wrap(told, max(1, width - len(time)))
    return [((time, "dim"), (first, role)), *(((" " * len(time), "dim"), (piece, role)) for piece in others)]
