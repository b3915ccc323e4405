"""The row of tabs on a terminal with room for one pane only."""

from __future__ import annotations

from trainer.tui.frame import Frame
from trainer.tui.text import Line, crop_line

PANES = {
    "phases": "phases",
    "metrics": "metrics",
    "loss": "loss",
    "valid": "valid",
    "rate": "rate",
    "system": "system",
    "log": "log",
}


def draw_tabs(frame: Frame, width: int, height: int) -> list[Line]:
    """All panes, the shown one marked, and the key that switches."""
    line: list[tuple[str, str]] = [(" ", "text")]
    for name, title in PANES.items():
        line.append((f"[{title}]" if name == frame.pane else f" {title} ", "key" if name == frame.pane else "dim"))
    return [crop_line((*line, ("  Tab", "key"), (" next", "dim")), width, frame.glyphs.ellipsis)]


def pane_at(x: int) -> str | None:
    """The pane whose tab is at a cell of the row."""
    end = 1
    for name, title in PANES.items():
        start, end = end, end + len(title) + 2
        if start <= x < end:
            return name
    return None
