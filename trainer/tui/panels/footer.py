"""The last line: the keys, or for some seconds what became of the last request."""

from __future__ import annotations

from trainer.tui.frame import Frame
from trainer.tui.keys import actions_of, key_name
from trainer.tui.text import Line, crop_line, join


def draw_footer(frame: Frame, width: int, height: int) -> list[Line]:
    """The message when there is one, else the keys of the table that belong here."""
    if frame.message:
        return [crop_line(((f" {frame.message}", "warn"),), width, frame.glyphs.ellipsis)]
    keys: list[Line] = []
    for action in actions_of("everywhere"):
        if not action.in_footer or (action.needs_worker and frame.status.is_over):
            continue
        label = "resume" if action.name == "pause" and frame.view.paused else action.label
        label = "quit" if action.name == "detach" and frame.status.is_over else label
        keys.append(((key_name(action.keys[0]), "key"), (f" {label}", "text")))
    return [crop_line(((" ", "text"), *join(keys, "  ")), width, frame.glyphs.ellipsis)]
