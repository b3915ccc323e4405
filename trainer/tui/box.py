"""A box around the lines of a panel, also drawn as lines, so that a new title repaints only the title."""

from __future__ import annotations

from trainer.tui.glyphs import Glyphs
from trainer.tui.text import Line, crop_line, fit_title, line_width

FRAME_WIDTH, FRAME_HEIGHT = 4, 2
"""Width and height of a box without its content: a border and a space on either side, a border above and below."""

FRAME_LEFT, FRAME_TOP = 2, 1
"""Column and line of the content in a box."""


def boxed(lines: list[Line], title: str, width: int, height: int, glyphs: Glyphs, role: str = "frame") -> list[Line]:
    """`lines` in a box of `width` by `height` cells with a title in its upper border."""
    inner = max(0, width - FRAME_WIDTH)
    head = f" {fit_title(title, inner - 2, glyphs.ellipsis)} " if title and inner > 2 else ""
    rule = glyphs.horizontal * max(0, width - 3 - line_width(((head, ""),)))
    upper_left, upper_right, lower_left, lower_right = list(glyphs.corners)
    result: list[Line] = [((upper_left + glyphs.horizontal, role), (head, "strong"), (rule + upper_right, role))]
    for index in range(max(0, height - FRAME_HEIGHT)):
        line = crop_line(lines[index], inner, glyphs.ellipsis) if index < len(lines) else ()
        padding = " " * (inner - line_width(line) + 1)
        result.append(((glyphs.vertical + " ", role), *line, (padding, "text"), (glyphs.vertical, role)))
    result.append(((lower_left + glyphs.horizontal * max(0, width - 2) + lower_right, role),))
    return result
