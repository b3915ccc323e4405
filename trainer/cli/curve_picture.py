"""A curve over a logarithmic axis as a PNG file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from trainer.rundir import replacing, write_error
from trainer.tui.axes import log_ticks, value_range
from trainer.tui.numbers import number

SIZE = (960, 540)
LEFT, RIGHT, TOP, BOTTOM = 90, 30, 40, 60
TICKS, FONT = 4, 16
_PAPER, _INK, _GRID, _BEHIND, _LINE, _MARK = "#ffffff", "#1c1f23", "#d9dde2", "#b5cfe0", "#0072b2", "#d55e00"


def save_curve(
    path: Path, x: Sequence[float], y: Sequence[float], *, behind: Sequence[float], mark: tuple[float, str],
    titles: tuple[str, str],
) -> None:  # fmt: skip
    """Draws `y` over positive `x` and writes the PNG.

    Args:
        behind: further values over `x`, drawn in a pale color and clipped to the range of `y`.
        mark: a position on the horizontal axis, and its label.
        titles: titles of the horizontal and the vertical axis.

    Raises:
        TrainerError: the file can't be written.
    """
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", SIZE, _PAPER)
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(FONT)
    logs = [math.log10(value) for value in x]
    start, stop = logs[0], max(logs[-1], logs[0] + 1e-9)
    bottom, top = value_range(min(y), max(y))

    def across(log: float) -> float:
        return LEFT + (log - start) / (stop - start) * (SIZE[0] - LEFT - RIGHT)

    def down(value: float) -> float:
        inside = min(max(value, bottom), top)
        return TOP + (top - inside) / (top - bottom) * (SIZE[1] - TOP - BOTTOM)

    for tick in range(TICKS + 1):
        value = bottom + (top - bottom) * tick / TICKS
        pen.line((LEFT, down(value), SIZE[0] - RIGHT, down(value)), _GRID)
        pen.text((LEFT - 8, down(value)), number(value), _INK, font, anchor="rm")
    for value in log_ticks(start, stop, TICKS):
        pen.line((across(math.log10(value)), TOP, across(math.log10(value)), SIZE[1] - BOTTOM), _GRID)
        pen.text((across(math.log10(value)), SIZE[1] - BOTTOM + 6), f"{value:g}", _INK, font, anchor="ma")
    for values, color, width in ((behind, _BEHIND, 1), (y, _LINE, 3)):
        points = [(across(log), down(value)) for log, value in zip(logs, values, strict=True)]
        pen.line(points, color, width, joint="curve")
    place = across(math.log10(mark[0]))
    pen.line((place, TOP, place, SIZE[1] - BOTTOM), _MARK, 2)
    pen.text((place, TOP - 8), mark[1], _MARK, font, anchor="ms")
    pen.text(((LEFT + SIZE[0] - RIGHT) / 2, SIZE[1] - 8), titles[0], _INK, font, anchor="ms")
    pen.text((LEFT, TOP - 8), titles[1], _INK, font, anchor="rs")
    try:
        with replacing(path) as aside:
            image.save(aside, "PNG")
    except OSError as error:
        raise write_error(path, error) from error
