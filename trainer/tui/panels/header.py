"""The first line: the run, its state, progress, speed, and time."""

from __future__ import annotations

from trainer.tui.frame import Frame
from trainer.tui.numbers import duration, rate
from trainer.tui.panels.progress import epoch_text, remaining_seconds
from trainer.tui.status import LOST, SILENT
from trainer.tui.text import Line, crop_line, join, line_width, spread
from trainer.tui.view import View


def draw_header(frame: Frame, width: int, height: int) -> list[Line]:
    """The header; if space is short, the least important parts are left out first."""
    glyphs = frame.glyphs
    parts = _parts(frame)
    help_hint: Line = (("? ", "key"), ("help ", "dim"))
    while True:
        line = ((" ", "text"), *join([part for _, part in parts], glyphs.separator))
        if line_width(line) + line_width(help_hint) + 1 <= width:
            return [spread(line, help_hint, width, glyphs.ellipsis)]
        expendable = [rank for rank, _ in parts if rank]
        if not expendable:
            return [crop_line(line, width, glyphs.ellipsis)]
        parts = [(rank, part) for rank, part in parts if rank != max(expendable)]


def _parts(frame: Frame) -> list[tuple[int, Line]]:
    """The parts with their rank: rank 0 always stays, the highest rank is left out first."""
    view, status = frame.view, frame.status
    badge = f" {getattr(frame.glyphs, status.glyph)} {status.word} "
    parts: list[tuple[int, Line]] = [(9, (("trainer", "strong"),))]
    if view.task and view.task != view.name:
        parts.append((7, ((view.task, "text"),)))
    parts.append((0, ((view.name, "strong"),)))
    parts.append((0, ((badge, f"badge_{status.role}"),)))
    if frame.heartbeat is not None and status in (SILENT, LOST):
        parts.append((1, (("last heartbeat ", "dim"), (f"{duration(frame.heartbeat)} ago", "warn"))))
    if frame.share_read < 1:
        parts.append((2, ((f"reading {frame.share_read:.0%}", "warn"),)))
    if view.attempt > 1:
        parts.append((8, ((f"attempt {view.attempt}", "text"),)))
    epoch = epoch_text(view)
    if epoch is not None:
        parts.append((1, (("epoch ", "dim"), (epoch, "text"))))
    if view.step is not None:
        parts.append((3, (("step ", "dim"), (str(view.step), "text"))))
    if status.is_moving:
        speed = view.steps_per_second()
        if speed is not None:
            parts.append((5, ((f"{rate(speed)} it/s", "text"),)))
        if view.system is not None and view.system.data_wait is not None:
            parts.append((6, (("data ", "dim"), (f"{view.system.data_wait:.0%}", "text"))))
        left = remaining_seconds(view, frame.now)
        if left is not None:
            parts.append((4, (("ETA ", "dim"), (duration(left), "text"))))
    if view.taken.seconds:
        parts.append((4 if status.is_over else 8, (("took ", "dim"), (duration(view.taken.seconds), "text"))))
    result = _result(view)
    if result is not None and status.is_over:
        parts.append((2, ((f"{result} ", "dim"), (f"{view.finals[result]:.4f}", "strong"))))
    return parts


def _result(view: View) -> str | None:
    """The final metric to show: a test metric before others, and a quality metric before a loss."""
    return min(view.finals, key=lambda name: (not name.startswith("test"), "loss" in name), default=None)
