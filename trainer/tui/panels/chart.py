"""The chart panels: the chart, or empty axes that name the missing data."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache

from trainer.tui.charts import CHARTS, Chart
from trainer.tui.frame import Frame
from trainer.tui.glyphs import Glyphs
from trainer.tui.text import Line, crop
from trainer.tui.view import View

CHART_SECONDS = 0.5

_TITLES = {"loss": "loss", "valid": "validation", "rate": "learning rate"}
_MISSING = {
    "loss": "no training step yet",
    "valid": "no validation yet",
    "rate": "no learning rate yet",
}


@lru_cache(len(CHARTS))
def _made(name: str, view: View, revision: int) -> Chart | None:
    return CHARTS[name](view)


def _chart(frame: Frame, name: str) -> Chart | None:
    """The current chart of the run; title, version and drawing of one frame share it."""
    return _made(name, frame.view, frame.view.revision)


def draw_chart_panel(name: str) -> Callable[[Frame, int, int], list[Line]]:
    """The drawing function of one chart of the table."""

    def draw(frame: Frame, width: int, height: int) -> list[Line]:
        chart = _chart(frame, name)
        if chart is None:
            return empty_chart(_MISSING[name], width, height, frame.glyphs)
        if frame.is_first:
            return [(("", "dim"),)]
        from trainer.tui.plot import draw_chart  # imports NumPy, which is not needed before the second frame

        return draw_chart(chart, width, height, frame.glyphs)

    return draw


def empty_chart(text: str, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """The axes of a chart, with a text in their middle."""
    if height < 3:
        return [((text, "dim"),)]
    room = max(0, width - 1)
    rows = [crop(text, room, glyphs.ellipsis).center(room) if row == (height - 2) // 2 else ""
            for row in range(height - 1)]  # fmt: skip
    return [*(((glyphs.vertical + row, "dim"),) for row in rows), ((glyphs.corner + glyphs.horizontal * room, "dim"),)]


def chart_version(name: str) -> Callable[[Frame], Hashable]:
    """The version function of a chart; an equal version is not drawn again.

    New values wait for the next half second: a chart is most of the cost of a frame, and one more point hardly shows.
    """
    shown: tuple[Hashable, Hashable] = (None, None)

    def version(frame: Frame) -> Hashable:
        nonlocal shown
        moment = (int(frame.now / CHART_SECONDS), frame.view.name, frame.view.attempt, frame.is_first)
        if shown[0] != moment:
            chart = _chart(frame, name)
            shown = (moment, None if chart is None else (frame.is_first, frame.glyphs.braille, *chart.version))
        return shown[1]

    return version


def chart_title(name: str) -> Callable[[Frame], str]:
    """The title function of a chart; the title has the latest values."""

    def title(frame: Frame) -> str:
        chart = _chart(frame, name)
        return _TITLES[name] if chart is None else chart.title

    return title
