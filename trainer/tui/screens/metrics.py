"""A chart for each metric."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.widget import Widget

from trainer.tui.axes import step_range
from trainer.tui.charts import WHOLE, Chart
from trainer.tui.frame import Frame
from trainer.tui.panel import Panel
from trainer.tui.panels.metrics import (
    MAX_CHARTS,
    MetricsState,
    draw_metric,
    grid_of,
    last_step,
    place_of,
    title_with_values,
)
from trainer.tui.screens.base import RunScreen, bindings_of
from trainer.tui.text import Line, crop_line

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard

ZOOM, PAN, POINT = 2.0, 0.25, 1 / 60
WHEEL_ZOOM = 1.25


class Metrics(RunScreen):
    """A grid of charts, as many as fit; the other panels are not displayed."""

    BINDINGS = bindings_of("metrics", "screen")
    scope = "metrics"
    scrolling = "charts"
    scroll_step = 1
    is_followed = True

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(dashboard)
        self.state = MetricsState()
        self._charts: list[Chart] = []
        self._grid = (1, 1)

    def body(self) -> Iterable[Widget]:
        source = self.dashboard
        yield Panel(self._draw_summary, source=source, id="metrics-summary", classes="row")
        yield Widget(
            *(
                Panel(
                    self._drawing(place),
                    source=source,
                    id=f"metric-{place}",
                    title=self._titled(place),
                    version=self._versioned(place),
                    classes="metric",
                )
                for place in range(MAX_CHARTS)
            ),
            id="charts",
        )

    def show(self, frame: Frame) -> None:
        if not self.query(f"#metric-{MAX_CHARTS - 1}"):
            return  # just opened, without widgets yet
        self._charts = self.state.charts(frame.view)
        self.state = replace(self.state, selected=max(0, min(self.state.selected, len(self._charts) - 1)))
        self._arrange()
        super().show(frame)

    def page_lines(self) -> int:
        return self._grid[1]

    def scroll_lines(self, lines: int) -> None:
        self._select(self.state.selected + lines * self._grid[0])

    def search(self, text: str) -> None:
        self.searched = text
        self._set(replace(self.state, text=text, selected=0))

    def action_enlarge(self) -> None:
        self._set(replace(self.state, is_enlarged=not self.state.is_enlarged))

    def action_next_chart(self) -> None:
        self._select(self.state.selected + 1)

    def action_previous_chart(self) -> None:
        self._select(self.state.selected - 1)

    def action_log_scale(self) -> None:
        self._set(self.state.with_next_scale())

    def action_smoothing(self) -> None:
        self._set(self.state.with_next_smoothing())

    def action_outliers(self) -> None:
        self._set(self.state.with_other_range())

    def action_zoom_in(self) -> None:
        self._set(self.state.zoomed(1 / ZOOM, self._last))

    def action_zoom_out(self) -> None:
        self._set(self.state.zoomed(ZOOM, self._last))

    def action_zoom_all(self) -> None:
        window = self.state.window
        self._set(replace(self.state, window=WHOLE._replace(smoothing=window.smoothing, is_robust=window.is_robust)))

    def action_pan_left(self) -> None:
        self._set(self.state.panned(-PAN, self._last))

    def action_pan_right(self) -> None:
        self._set(self.state.panned(PAN, self._last))

    def action_cursor_left(self) -> None:
        self._set(self.state.pointed(-POINT, self._last))

    def action_cursor_right(self) -> None:
        self._set(self.state.pointed(POINT, self._last))

    def clicked(self, panel: Panel, x: int, y: int, *, is_double: bool) -> None:
        place = _place_of(panel)
        if place is None:
            super().clicked(panel, x, y, is_double=is_double)
        elif is_double:
            self.action_zoom_all()
        else:
            self._select(self._index(place))

    def wheeled(self, panel: Panel, x: int, y: int, notches: int) -> None:
        step = self._step_at(panel, x)
        if step is None:
            super().wheeled(panel, x, y, notches)
        else:
            self._set_soon(self.state.zoomed(WHEEL_ZOOM**notches, step_range(self._last), step))

    def wheeled_aside(self, notches: int) -> None:
        self._set_soon(self.state.panned(notches * PAN / 2, step_range(self._last)))

    def dragged(self, panel: Panel, columns: int) -> None:
        if _place_of(panel) is not None:
            self._set_soon(self.state.panned(-columns / max(1, panel.drawn_size[0]), step_range(self._last)))

    def hovered(self, panel: Panel | None, x: int, y: int) -> None:
        step = None if panel is None else self._step_at(panel, x)
        if step is not None:
            self._set_soon(self.state.at(step, self._last))

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def _last(self) -> float:
        return last_step(self.dashboard.feed.view)

    def _set(self, state: MetricsState) -> None:
        self.state = state
        self.dashboard.draw()

    def _set_soon(self, state: MetricsState) -> None:
        """Sets the state for the mouse, and draws at the next allowed time."""
        if state != self.state:
            self.state = state
            self.dashboard.draw_soon()

    def _step_at(self, panel: Panel, x: int) -> float | None:
        """The step under the pointer, None outside of a chart."""
        place = _place_of(panel)
        chart = None if place is None else self._chart(place)
        if chart is None:
            return None
        from trainer.tui.plot import step_at

        return step_at(chart, *panel.drawn_size, x)

    def _select(self, chart: int) -> None:
        self._set(replace(self.state, selected=max(0, min(chart, len(self._charts) - 1))))

    def _arrange(self) -> None:
        """Fits the number of columns to the width, and displays as many panels as the grid has places."""
        charts = self.query_one("#charts")
        width, height = charts.size
        self._grid = (1, 1) if self.state.is_enlarged else grid_of(len(self._charts), width, height)
        columns, rows = self._grid
        charts.styles.grid_size_columns, charts.styles.grid_size_rows = columns, rows
        for place in range(MAX_CHARTS):
            self.query_one(f"#metric-{place}").display = place < columns * rows and self._chart(place) is not None

    def _index(self, place: int) -> int:
        return place_of(self.state, place, *self._grid)

    def _chart(self, place: int) -> Chart | None:
        index = self._index(place)
        return self._charts[index] if index < len(self._charts) else None

    def _drawing(self, place: int) -> Callable[[Frame, int, int], list[Line]]:
        return lambda frame, width, height: draw_metric(frame, width, height, self._chart(place))

    def _titled(self, place: int) -> Callable[[Frame], str]:
        def title(frame: Frame) -> str:
            chart = self._chart(place)
            if chart is None:
                return ""
            is_selected = place_of(self.state, place, *self._grid) == self.state.selected and len(self._charts) > 1
            text = title_with_values(chart, frame.view, is_first=frame.is_first)
            return f"{frame.glyphs.cursor} {text}" if is_selected else text

        return title

    def _versioned(self, place: int) -> Callable[[Frame], Hashable]:
        def version(frame: Frame) -> Hashable:
            chart = self._chart(place)
            is_selected = place_of(self.state, place, *self._grid) == self.state.selected
            return None if chart is None else (frame.is_first, is_selected, chart.version)

        return version

    def _draw_summary(self, frame: Frame, width: int, height: int) -> list[Line]:
        state, window = self.state, self.state.window
        if not self._charts:
            nothing = f"no metric with {state.text!r} in its name" if state.text else "no metrics yet"
            return [((f" {nothing}", "dim"),)]
        count = len(self._charts)
        parts = [f"{count} metric" + "s" * (count != 1) + (f" with {state.text!r}" if state.text else "")]
        parts += [f"smoothing {window.smoothing}", f"{state.scale} scale"]
        parts.append("range without outliers" if window.is_robust else "range of all values")
        parts += [f"steps {window.start:.0f} to {window.end:.0f}"] if window.end is not None else []
        parts += [f"values at step {window.cursor:.0f}"] if window.cursor is not None else []
        return [crop_line(((f" {frame.glyphs.separator.join(parts)}", "dim"),), width, frame.glyphs.ellipsis)]


def _place_of(panel: Panel) -> int | None:
    """The place of a panel in the grid; None for other panels."""
    name, _, number = (panel.id or "").partition("-")
    return int(number) if name == "metric" and number.isdecimal() else None
