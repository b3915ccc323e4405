"""The last line: the keys, or for some seconds the answer to the last request."""

from __future__ import annotations

from collections.abc import Hashable

from trainer.tui.frame import Frame
from trainer.tui.keys import SCREENS, Action, actions_of, key_name
from trainer.tui.text import Line, crop_line, join, line_width

SEPARATOR = "  "
ALWAYS = ("detach", "help")
"""Actions that every line lists."""


def draw_footer(frame: Frame, width: int, height: int) -> list[Line]:
    """The message if there is one, else the keys of this screen.

    If space is short, one word replaces all screens; then keys are left out, but never `q` and `?`.
    """
    if frame.message:
        return [crop_line(((f" {frame.message}", "warn"),), width, frame.glyphs.ellipsis)]
    line: Line = ((" ", "text"), *join([part for part, _ in _parts(frame, width)], SEPARATOR))
    return [crop_line(line, width, frame.glyphs.ellipsis)]


def action_at(frame: Frame, width: int, x: int) -> Action | None:
    """The action of a click at column `x` of the line; on the word for all screens, the next screen."""
    end = 1
    for part, action in () if frame.message else _parts(frame, width):
        start, end = end, end + line_width(part)
        if start <= x < end:
            return action
        end += len(SEPARATOR)
    return None


def _parts(frame: Frame, width: int) -> list[tuple[Line, Action]]:
    """The keys of the line with their actions."""
    shown = [action for action in actions_of("everywhere") if action.in_footer]
    screens = [(_key(frame, action), action) for action in shown if action.name in SCREENS]
    others = [
        (_key(frame, action), action)
        for action in shown
        if action.name not in SCREENS and not (action.needs_worker and frame.status.is_over)
    ]
    own = [(_key(frame, action), action) for action in actions_of(frame.screen) if action.in_footer]
    parts = [*screens, *own, *others]
    if _width(parts) <= width:
        return parts
    names = [action.name for _, action in screens]
    following = screens[(names.index(frame.screen) + 1) % len(screens) if frame.screen in names else 0][1]
    parts = [(((f"1-{len(screens)}", "key"), (" screens", "text")), following), *own, *others]
    while _width(parts) > width and any(action.name not in ALWAYS for _, action in parts):
        parts.remove(next(part for part in reversed(parts) if part[1].name not in ALWAYS))
    return parts


def _width(parts: list[tuple[Line, Action]]) -> int:
    return 1 + line_width(join([part for part, _ in parts], SEPARATOR))


def footer_version(frame: Frame) -> Hashable:
    """The values that the line depends on."""
    return frame.message, frame.screen, frame.view.paused, frame.status


def _key(frame: Frame, action: Action) -> Line:
    label = "resume" if action.name == "pause" and frame.view.paused else action.label
    label = "quit" if action.name == "detach" and frame.status.is_over else label
    return ((key_name(action.keys[0]), "key"), (f" {label}", "text"))
