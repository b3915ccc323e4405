"""The last lines of the log: what happened, what the user should look at, and what the worker printed."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

from trainer.tui.frame import Frame
from trainer.tui.text import Line, crop_line
from trainer.tui.view import LogLine

_ROLES = {"warning": "warn", "error": "bad", "critical": "bad", "good": "good", "debug": "dim", "output": "text"}


def draw_log(frame: Frame, width: int, height: int) -> list[Line]:
    """The newest lines that fit, the newest last; `frame.scroll` lines further back."""
    log = frame.view.log
    end = max(0, len(log) - min(frame.scroll, max(0, len(log) - height)))
    shown = islice(log, max(0, end - height), end)
    lines = [crop_line(_line(line), width, frame.glyphs.ellipsis) for line in shown]
    return lines or [(("nothing yet", "dim"),)]


def _line(line: LogLine) -> Line:
    role = _ROLES.get(line.level, "text")
    if line.level == "output":
        return ((line.message, role),)
    time = f"{datetime.fromtimestamp(line.time):%H:%M:%S} "
    level = ((f"{line.level}: ", role),) if line.level in ("warning", "error", "critical") else ()
    return ((time, "dim"), *level, (line.message, role))
