"""The line below the header: the diagnosis of the run."""

from __future__ import annotations

from collections.abc import Hashable

from trainer.tui.diagnosis import diagnose
from trainer.tui.frame import Frame
from trainer.tui.text import Line, crop_line

GLYPHS = {"good": "finished", "warn": "warning", "bad": "failed", "text": "running"}
"""The glyph that shows each role without color."""


def draw_diagnosis(frame: Frame, width: int, height: int) -> list[Line]:
    """Draws the sentence of the diagnosis."""
    found = diagnose(frame.view, frame.status)
    if found is None:
        return [((" ", "text"),)]
    glyph = getattr(frame.glyphs, GLYPHS[found.role])
    return [crop_line(((f" {glyph} {found.text}", found.role),), width, frame.glyphs.ellipsis)]


def diagnosis_version(frame: Frame) -> Hashable:
    """The values that the line depends on; a new sentence waits for the next second, so that it can be read."""
    return int(frame.now), frame.status, frame.view.name, frame.view.end is None
