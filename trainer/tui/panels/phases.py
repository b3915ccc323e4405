"""The phases of the run: state, count, clock, and what the running one is on now."""

from __future__ import annotations

from trainer.tui.frame import Frame
from trainer.tui.numbers import clock, duration
from trainer.tui.text import Line, crop, crop_line
from trainer.tui.view import Phase, speed_up

NAME_WIDTH = 10
CLOCK_WIDTH = 6


def draw_phases(frame: Frame, width: int, height: int) -> list[Line]:
    """A line a phase in the order in which they began, two for one that says what it is on or what it gained.

    Where the panel is too low, the phases that were done first give way.
    """
    phases = list(frame.view.phases.values())
    if not phases:
        return [((f"{frame.glyphs.waiting} nothing has begun yet", "dim"),)]
    blocks = [(phase.is_active, _lines(phase, frame, width)) for phase in phases]
    while sum(len(lines) for _, lines in blocks) > height and len(blocks) > 1:
        done = [index for index, (is_active, _) in enumerate(blocks) if not is_active]
        del blocks[done[0] if done else 0]
    return [line for _, lines in blocks for line in lines][:height]


def _lines(phase: Phase, frame: Frame, width: int) -> list[Line]:
    glyphs = frame.glyphs
    if phase.state == "failed":
        glyph, role = glyphs.failed, "bad"
    elif not phase.is_active:
        glyph, role = glyphs.finished, "good"
    elif frame.status.is_over:
        glyph, role = glyphs.stopped, "warn"
    else:
        glyph, role = glyphs.running, "busy"
    name_role = "strong" if role == "busy" else "text"
    now = phase.changed if frame.status.is_over else frame.now
    told_as = clock if role == "busy" else duration
    took = told_as(phase.seconds(now)).rjust(CLOCK_WIDTH)
    room = max(0, width - 2 - NAME_WIDTH - 1 - CLOCK_WIDTH)
    line: Line = (
        (f"{glyph} ", role),
        (crop(phase.name, NAME_WIDTH, glyphs.ellipsis).ljust(NAME_WIDTH), name_role),
        (_count(phase, room).rjust(room), "text"),
        (f" {took}", "dim"),
    )
    lines = [crop_line(line, width, glyphs.ellipsis)]
    gain = speed_up(frame.view.decisions.values()) if phase.name == "autotune" else None
    told = [f"{gain:.2f}x" if phase.is_active else f"{gain:.2f}x as fast"] if gain is not None else []
    told += [phase.now] if phase.now and phase.is_active else []
    if told:
        lines.append((("  " + crop("  ".join(told), width - 2, glyphs.ellipsis), "dim"),))
    return lines


def _count(phase: Phase, room: int) -> str:
    """`12/200`, or the share where that takes too much room."""
    if phase.done is None:
        return ""
    if not phase.total:
        text = f"{phase.done:g}"
    else:
        text = f"{phase.done:g}/{phase.total:g}"
        if len(text) > room:
            text = f"{phase.done / phase.total:.0%}"
    return text if len(text) <= room else ""
