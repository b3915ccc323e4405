"""The overview's pane of samples: the newest ones, as many next to each other as fit."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from trainer.rundir import SampleEvent
from trainer.tui.frame import Frame
from trainer.tui.text import Line

if TYPE_CHECKING:
    from trainer.tui.panels.samples import Read

MIN_WIDTH, MAX_ITEMS = 20, 3
"""Minimum width of an item, and maximum number of them."""


def draw_newest(frame: Frame, width: int, height: int, read: Read) -> list[Line]:
    """The first samples of the newest step with samples, without boxes around them."""
    if frame.is_first or not frame.view.samples:
        return []
    from trainer.tui.annotations import Layers  # imports NumPy
    from trainer.tui.panels.samples import SamplesState, beside, draw_item, shown_items

    items = shown_items(frame.view, SamplesState())
    items = items[: max(1, min(MAX_ITEMS, width // (MIN_WIDTH * len(items[0]))))]
    cell = width // len(items)
    return beside([draw_item(item, frame, cell - 1, height, Layers(), read) for item in items], cell, height)


def newest_version(frame: Frame) -> Hashable:
    """The values that the pane depends on."""
    return frame.is_first, frame.has_color, tuple(event.file for event in _newest(frame))


def newest_title(frame: Frame) -> str:
    """The step of the samples."""
    events = _newest(frame)
    return f"samples  step {events[0].step}" if events else "samples"


def _newest(frame: Frame) -> Sequence[SampleEvent]:
    if not frame.view.samples:
        return ()
    from trainer.tui.panels.samples import SamplesState, shown_samples  # not needed for most first frames

    return shown_samples(frame.view, SamplesState())
