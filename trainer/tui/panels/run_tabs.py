"""The row of tabs of several watched runs, each with its status."""

from __future__ import annotations

from trainer.tui.frame import Frame, WatchedRun
from trainer.tui.text import Line, crop_line, join, line_width

GLYPHS = {
    "running": "running", "starting": "starting", "done": "finished", "stopped": "stopped", "interrupted": "stopped",
    "failed": "failed", "lost": "failed", "paused": "paused", "stopping": "stopped", "silent": "silent",
    "pruned": "stopped",
}  # fmt: skip
"""The name of the glyph of each status; the word of the status is next to the glyph."""

SEPARATOR = "  "


def draw_run_tabs(frame: Frame, width: int, height: int) -> list[Line]:
    """All watched runs, the shown one marked, and the keys that switch."""
    line: Line = ((" ", "text"), *join([_tab(run, frame) for run in frame.watched], SEPARATOR))
    hint: Line = (("  [", "key"), (" ", "text"), ("]", "key"), (" other run", "dim"))
    return [crop_line((*line, *hint), width, frame.glyphs.ellipsis)]


def run_at(frame: Frame, x: int) -> int | None:
    """The number of the run whose tab is at a cell of the row."""
    end = 1
    for number, run in enumerate(frame.watched):
        start, end = end, end + line_width(_tab(run, frame))
        if start <= x < end:
            return number
        end += len(SEPARATOR)
    return None


def _tab(run: WatchedRun, frame: Frame) -> Line:
    glyph = getattr(frame.glyphs, GLYPHS.get(run.status, "starting"))
    name = f"{run.letter} {run.name}"
    shown = f"[{name}]" if run.is_shown else f" {name} "
    return ((shown, "key" if run.is_shown else "text"), (f" {glyph} {run.status}", "dim"))
