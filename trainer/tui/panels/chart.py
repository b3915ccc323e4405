"""The chart panels: the chart itself, or in words what is missing."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from trainer.tui.charts import CHARTS
from trainer.tui.frame import Frame
from trainer.tui.text import Line

_MISSING = {
    "loss": "no training step yet",
    "valid": "no validation yet",
    "rate": "no learning rate yet",
}


def draw_chart_panel(name: str) -> Callable[[Frame, int, int], list[Line]]:
    """The drawing function of one chart of the table."""

    def draw(frame: Frame, width: int, height: int) -> list[Line]:
        chart = CHARTS[name](frame.view)
        if chart is None or frame.is_first:
            return [((_MISSING[name] if chart is None else "", "dim"),)]
        from trainer.tui.plot import draw_chart  # NumPy comes with it, and is not needed before the second frame

        return draw_chart(chart, width, height, frame.glyphs)

    return draw


def chart_version(name: str) -> Callable[[Frame], Hashable]:
    """What a chart's drawing depends on; equal values mean that nothing need be drawn anew."""

    def version(frame: Frame) -> Hashable:
        chart = CHARTS[name](frame.view)
        return None if chart is None else (frame.is_first, frame.glyphs.braille, *chart.version)

    return version


def chart_title(name: str) -> Callable[[Frame], str]:
    """The chart's title with its latest values."""

    def title(frame: Frame) -> str:
        chart = CHARTS[name](frame.view)
        return name if chart is None else chart.title

    return title
