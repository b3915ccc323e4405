"""Everything at a glance."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from trainer.tui.charts import CHARTS
from trainer.tui.frame import Frame
from trainer.tui.overview import Content, Place, body_places, is_small, parts_of_body
from trainer.tui.panel import Panel
from trainer.tui.panels.diagnosis import diagnosis_version, draw_diagnosis
from trainer.tui.panels.log import LogFilter
from trainer.tui.panels.progress import draw_progress
from trainer.tui.panels.tabs import PANES, draw_tabs, pane_at
from trainer.tui.screens.base import RunScreen, bindings_of

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard


class Body(Widget):
    """The boxes between the rows, placed by their content as in the first frame, which is drawn without Textual.

    Args:
        places: returns the place of each box in a body of a width and height; a box without a place is not shown.
    """

    def __init__(self, *panels: Panel, places: Callable[[int, int], dict[str, Place]]) -> None:
        super().__init__(*panels, id="body")
        self._placed = _Placed(places)

    @property
    def layout(self) -> Layout:
        return self._placed


class _Placed(Layout):
    """A layout with every child at its place."""

    name = "placed"

    def __init__(self, places: Callable[[int, int], dict[str, Place]]) -> None:
        self._places = places

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        places = self._places(size.width, size.height)
        return [
            WidgetPlacement(Region(*places[child.id]), NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child.id in places
        ]


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
        self._content = Content.of(dashboard.feed.view)

    def show(self, frame: Frame) -> None:
        content = Content.of(frame.view)
        if self._places_with(content) != self._places_with(self._content):
            self._content = content
            self._arrange_body()
        self._content = content
        super().show(frame)

    def show_pane(self, pane: str) -> None:
        self.pane = pane
        self._arrange_body()
        self.dashboard.draw()

    def text_lines(self) -> int:
        return sum(1 for _ in self.log_filter.keeps(self.dashboard.feed.view.log))

    def search(self, text: str) -> None:
        self._filter_log(self.log_filter._replace(text=text))

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
        elif panel.id in CHARTS or panel.id == "metrics":
            self.dashboard.show_screen("metrics")
        elif panel.id == "samples":
            self.dashboard.show_screen("samples")
        elif panel.id == "ranks":
            self.dashboard.show_screen("ranks")
        else:
            super().clicked(panel, x, y, is_double=is_double)

    def _filter_log(self, shown: LogFilter) -> None:
        self.log_filter, self.searched, self.scrolled = shown, shown.text, 0
        self.dashboard.draw()

    def _places(self, width: int, height: int) -> dict[str, Place]:
        """The place of each box in the body; on a small terminal, only of the shown pane."""
        if is_small(*self.app.size):
            return {self.pane: (0, 0, width, height)}
        return body_places(width, height, self._content)

    def _places_with(self, content: Content) -> dict[str, Place]:
        bodies = self.query(Body)
        return body_places(*bodies.first().size, content) if bodies else {}

    def _arrange_body(self) -> None:
        """Places the boxes again."""
        self.query_one(f"#{self.pane}").refresh(layout=True)  # on a child: this clears the placements of its parent

    def body(self) -> Iterable[Widget]:
        source = self.dashboard
        yield Panel(draw_tabs, source=source, id="tabs", classes="row")
        yield Panel(draw_diagnosis, source=source, id="diagnosis", version=diagnosis_version, classes="row")
        yield Body(
            *(
                Panel(
                    part.draw,
                    source=source,
                    id=part.name,
                    title=part.title,
                    version=part.version,
                    classes="box",
                )
                for part in parts_of_body(lambda: self.log_filter, lambda event: self.dashboard.feed.sample(event))
            ),
            places=self._places,
        )
        yield Panel(draw_progress, source=source, id="progress", classes="row")
