"""The overview's pane of samples: what the run has shown last, as many pictures beside each other as have room."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from trainer.rundir import SampleEvent
from trainer.tui.frame import Frame
from trainer.tui.text import Line, crop, printable, wrap

if TYPE_CHECKING:
    from trainer.tui.panels.samples import Read

LEAST_WIDTH, MOST = 20, 3
"""Cells that a picture has at least, and how many there are at most."""


def draw_newest(frame: Frame, width: int, height: int, read: Read) -> list[Line]:
    """The first samples of the newest step that has some, without boxes around them."""
    if frame.is_first:
        return []
    events = _newest(frame)[: max(1, min(MOST, width // LEAST_WIDTH))]
    if not events:
        return []
    from trainer.tui.panels.samples import beside

    cell = width // len(events)
    return beside([_drawn(event, frame, cell - 1, height, read) for event in events], cell, height)


def newest_version(frame: Frame) -> Hashable:
    """What the pane depends on."""
    files = tuple(event.file for event in _newest(frame)[:MOST])
    return frame.is_first, frame.has_colour, files


def newest_title(frame: Frame) -> str:
    """Which step it is."""
    events = _newest(frame)
    return f"samples  step {events[0].step}" if events else "samples"


def _newest(frame: Frame) -> Sequence[SampleEvent]:
    if not frame.view.samples:
        return ()
    from trainer.tui.panels.samples import SamplesState, shown_samples  # not needed for most first frames

    return shown_samples(frame.view, SamplesState())


def _drawn(event: SampleEvent, frame: Frame, width: int, height: int, read: Read) -> list[Line]:
    sample = read(event)
    caption = printable(event.caption or event.name)
    if sample is None:
        return [(("can't be read", "warn"),)]
    if sample.image is None:
        lines: list[Line] = [
            ((piece, "text"),) for line in sample.text.splitlines() for piece in wrap(printable(line), width)
        ]
        return lines[:height]
    from trainer.tui.annotations import Layers
    from trainer.tui.pictures import draw_picture  # NumPy comes with it

    room = max(1, height - 1)
    lines = draw_picture(sample, width, room, frame.glyphs, has_colour=frame.has_colour, layers=Layers())
    return [*lines, ((crop(caption, width, frame.glyphs.ellipsis), "dim"),)]
