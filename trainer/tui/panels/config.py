"""The resolved configuration, each value with its origin."""

from __future__ import annotations

from trainer.tui.frame import Frame
from trainer.tui.text import Line, crop_line, printable


def draw_config(frame: Frame, width: int, height: int) -> list[Line]:
    """The lines from `frame.scroll` on; comments, which name the origin of a value, are dim."""
    if not frame.config:
        return [(("not written yet", "dim"),)]
    start = min(frame.scroll, max(0, len(frame.config) - height))
    return [_line(text, width, frame) for text in frame.config[start : start + height]]


def _line(text: str, width: int, frame: Frame) -> Line:
    text = printable(text)
    before, mark, comment = text.partition("  #") if not text.startswith("#") else ("", "", text)
    key, colon, value = before.partition(":")
    return crop_line(((key + colon, "busy"), (value, "text"), (mark + comment, "dim")), width, frame.glyphs.ellipsis)
