"""The last line: the keys, or for some seconds what became of the last request."""

from __future__ import annotations

from collections.abc import Hashable

from trainer.tui.frame import Frame
from trainer.tui.keys import SCREENS, Action, actions_of, key_name
from trainer.tui.text import Line, crop_line, join, line_width


def draw_footer(frame: Frame, width: int, height: int) -> list[Line]:
    """The message when there is one, else the keys of the table that belong here.

    Where there is no room for the names of all screens, one word stands for them; then the keys crop.
    """
    if frame.message:
        return [crop_line(((f" {frame.message}", "warn"),), width, frame.glyphs.ellipsis)]
    shown = [action for action in actions_of("everywhere") if action.in_footer]
    screens = [_key(frame, action) for action in shown if action.name in SCREENS]
    others = [
        _key(frame, action)
        for action in shown
        if action.name not in SCREENS and not (action.needs_worker and frame.status.is_over)
    ]
    own = [_key(frame, action) for action in actions_of(frame.screen) if action.in_footer]
    line: Line = ()
    for names in (screens, [((f"1-{len(screens)}", "key"), (" screens", "text"))]):
        line = ((" ", "text"), *join([*names, *own, *others], "  "))
        if line_width(line) <= width:
            break
    return [crop_line(line, width, frame.glyphs.ellipsis)]


def footer_version(frame: Frame) -> Hashable:
    """What the line depends on."""
    return frame.message, frame.screen, frame.view.paused, frame.status


def _key(frame: Frame, action: Action) -> Line:
    label = "resume" if action.name == "pause" and frame.view.paused else action.label
    label = "quit" if action.name == "detach" and frame.status.is_over else label
    return ((key_name(action.keys[0]), "key"), (f" {label}", "text"))
