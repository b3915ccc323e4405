"""The metrics screen: a chart for each metric, all with the same steps and the same cross-hair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from trainer.tui.charts import WHOLE, Chart, Smoothing, Window, metric_charts
from trainer.tui.frame import Frame
from trainer.tui.numbers import number
from trainer.tui.text import Line
from trainer.tui.view import View

MIN_WIDTH, MIN_HEIGHT = 36, 9
MAX_CHARTS = 24
"""Maximum number of charts on one screen."""

_SMOOTHINGS: tuple[Smoothing, ...] = ("0.9", "0.99", "none")
_SCALES = {None: "automatic", True: "logarithmic", False: "linear"}

Choice = TypeVar("Choice")


def _following(choices: Sequence[Choice], chosen: Choice) -> Choice:
    return choices[(choices.index(chosen) + 1) % len(choices)]


@dataclass(frozen=True)
class MetricsState:
    """The user's choices.

    Attributes:
        text: a filter; only metrics with this text in their name are shown.
        selected: the number of the selected chart; the screen is scrolled to it.
        is_enlarged: the selected chart alone is shown.
        log_scale: None: each chart chooses its scale.
    """

    text: str = ""
    selected: int = 0
    is_enlarged: bool = False
    log_scale: bool | None = None
    window: Window = WHOLE

    def charts(self, view: View) -> list[Chart]:
        """The charts of the selected metrics."""
        return metric_charts(view, self.text, self.window, log_scale=self.log_scale)

    @property
    def scale(self) -> str:
        """The scale in words."""
        return _SCALES[self.log_scale]

    def with_next_scale(self) -> MetricsState:
        """The state with the next scale; after the last scale, the first one."""
        return replace(self, log_scale=_following(list(_SCALES), self.log_scale))

    def with_next_smoothing(self) -> MetricsState:
        """The state with the next smoothing; after the last smoothing, the first one."""
        return replace(self, window=self.window._replace(smoothing=_following(_SMOOTHINGS, self.window.smoothing)))

    def with_other_range(self) -> MetricsState:
        """The state with outliers included in the range of values, or excluded again."""
        return replace(self, window=self.window._replace(is_robust=not self.window.is_robust))

    def zoomed(self, factor: float, last: float, around: float | None = None) -> MetricsState:
        """Shows `factor` times as many steps around `around`, the cross-hair or the middle; `last` is the last step."""
        window = self.window
        start, end = _edges(window, last)
        middle = around if around is not None else (start + end) / 2 if window.cursor is None else window.cursor
        start, end = middle + (start - middle) * factor, middle + (end - middle) * factor
        if end - start < 2:
            return self
        if start <= 0 and end >= last:
            return replace(self, window=window._replace(start=0.0, end=None))
        shift = max(0.0, -start) - max(0.0, end - max(last, end - start))
        return replace(self, window=window._replace(start=max(0.0, start + shift), end=end + shift))

    def panned(self, share: float, last: float) -> MetricsState:
        """Shows steps later by a share of the width (negative: earlier); unchanged while all steps are shown."""
        if self.window.end is None:
            return self
        start, end = _edges(self.window, last)
        shift = max(-start, min((end - start) * share, last - end))
        return replace(self, window=self.window._replace(start=start + shift, end=end + shift))

    def at(self, step: float, last: float) -> MetricsState:
        """The state with the cross-hair at a step."""
        start, end = _edges(self.window, last)
        return replace(self, window=self.window._replace(cursor=float(round(min(end, last, max(start, step))))))

    def pointed(self, share: float, last: float) -> MetricsState:
        """The state with the cross-hair moved by a share of the width; a new cross-hair is at the last shown step."""
        start, end = _edges(self.window, last)
        cursor = min(end, last) if self.window.cursor is None else self.window.cursor + (end - start) * share
        return replace(self, window=self.window._replace(cursor=min(end, last, max(start, cursor))))


def _edges(window: Window, last: float) -> tuple[float, float]:
    return window.start, max(window.start + 1, last) if window.end is None else window.end


def last_step(view: View) -> float:
    """The last step of any metric."""
    return max((series.steps[-1] for series in view.series.values() if len(series)), default=0.0)


def grid_of(count: int, width: int, height: int) -> tuple[int, int]:
    """Columns and rows of charts: as many as fit, at most `count`."""
    columns = max(1, min(width // MIN_WIDTH, 4, count))
    rows = max(1, min(height // MIN_HEIGHT, -(-count // columns), MAX_CHARTS // columns))
    return columns, rows


def place_of(state: MetricsState, place: int, columns: int, rows: int) -> int:
    """The number of the chart at a place of the grid, which is scrolled to the selected chart."""
    if state.is_enlarged:
        return state.selected
    first_row = max(0, state.selected // columns - rows + 1)
    return first_row * columns + place


def title_with_values(chart: Chart, view: View, *, is_first: bool) -> str:
    """The chart's name, the value of each line at the cross-hair (else the latest), and the best value with its epoch.

    Args:
        is_first: this is the first frame, which avoids NumPy and shows only the name.
    """
    if is_first:
        return chart.title
    from trainer.tui.chart_values import resolved, values_at

    step = chart.window.cursor if chart.window.cursor is not None else float("inf")
    values: dict[str, float] = {layer.name: value for layer, value in values_at(chart, step)}
    title = [chart.title]
    not_finite = sum({layer.name: layer.series.not_finite for layer in chart.layers}.values())
    title += [f"{not_finite} not finite"] if not_finite else []
    title += [f"{name} {number(value)}" for name, value in values.items()]
    if chart.best is not None:
        epoch = view.epoch_of(chart.best[0])
        title.append(f"best {number(chart.best[1])} at {chart.best[0]:g}" + (f" (epoch {epoch:.3g})" if epoch else ""))
    title += ["(log)"] if resolved(chart).log_scale else []
    return "  ".join(title)


def draw_metric(frame: Frame, width: int, height: int, chart: Chart | None) -> list[Line]:
    """One chart of the grid; nothing for a place without a chart."""
    if chart is None or frame.is_first:
        return []
    from trainer.tui.plot import draw_chart

    return draw_chart(chart, width, height, frame.glyphs)
