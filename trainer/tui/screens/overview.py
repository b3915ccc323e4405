"""Everything at a glance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.widget import Widget

from trainer.tui.charts import CHARTS
from trainer.tui.frame import Frame
from trainer.tui.overview import parts_of_body
from trainer.tui.panel import Panel
from trainer.tui.panels.log import LogFilter
from trainer.tui.panels.progress import draw_progress
from trainer.tui.panels.tabs import PANES, draw_tabs, pane_at
from trainer.tui.screens.base import RunScreen, bindings_of

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard


class Overview(RunScreen):
    """Everything at a glance."""

    BINDINGS = bindings_of("overview", "screen")
    scope = "overview"
    panes = tuple(PANES)
    scrolling = "log"
    scroll_direction = -1  # the log starts at its end

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(dashboard)
        self.log_filter = LogFilter()

    def show(self, frame: Frame) -> None:
        self.set_class(bool(frame.view.samples), "-sampled")  # the style sheet makes room for them
        super().show(frame)

    def text_lines(self) -> int:
        return sum(1 for _ in self.log_filter.keeps(self.dashboard.feed.view.log))

    def search(self, text: str) -> None:
        self._filter_log(replace(self.log_filter, text=text))

    def action_log_level(self) -> None:
        self._filter_log(self.log_filter.next_level())

    def action_next_pane(self) -> None:
        self.move_pane(1)

    def action_previous_pane(self) -> None:
        self.move_pane(-1)

    def clicked(self, panel: Panel, x: int, y: int, *, is_double: bool) -> None:
        pane = pane_at(x) if panel.id == "tabs" else None
        if pane is not None:
            self.show_pane(pane)
        elif panel.id in CHARTS:
            self.dashboard.action_metrics()
        elif panel.id == "samples":
            self.dashboard.action_samples()
        else:
            super().clicked(panel, x, y, is_double=is_double)

    def _filter_log(self, shown: LogFilter) -> None:
        self.log_filter, self.searched, self.scrolled = shown, shown.text, 0
        self.dashboard.draw()

    def body(self) -> Iterable[Widget]:
        source = self.dashboard
        yield Panel(draw_tabs, source=source, id="tabs", classes="row")
        yield Widget(
            *(
                Panel(
                    part.draw,
                    source=source,
                    id=part.name,
                    title=part.title,
                    version=part.version,
                    classes="box shown" if part.name == self.pane else "box",
                )
                for part in parts_of_body(lambda: self.log_filter, lambda event: self.dashboard.feed.sample(event))
            ),
            id="body",
        )
        yield Panel(draw_progress, source=source, id="progress", classes="row")
