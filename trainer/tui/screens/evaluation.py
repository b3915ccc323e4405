"""Results of evaluations: matrices, curves, tables, the worst items with their pictures."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.widget import Widget

from trainer.rundir import ReportEvent
from trainer.tui.frame import Frame
from trainer.tui.listing import Column, Row, TableState
from trainer.tui.panel import Panel
from trainer.tui.panels.evaluation import draw_report, place_in_report, shown_view, table_of
from trainer.tui.panels.samples import SamplesState
from trainer.tui.panels.worst_items import draw_items, place_in_items
from trainer.tui.pixel_pictures import HungPanel, Wall
from trainer.tui.reports import Report, report_of
from trainer.tui.screens.base import bindings_of
from trainer.tui.screens.table import TableScreen
from trainer.tui.text import Line

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard
    from trainer.tui.feed import Feed


class Evaluation(TableScreen):
    """The latest report of each name, one at a time."""

    BINDINGS = bindings_of("evaluation", "screen")
    scope = "evaluation"
    scrolling = "evaluation"

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(dashboard)
        self.shown = self.view = 0
        self.state = SamplesState()
        self.has_counts = False
        self._wall = Wall(dashboard)
        self._read: tuple[Feed, ReportEvent, Report] | None = None

    def body(self) -> Iterable[Widget]:
        yield HungPanel(
            self._draw, wall=self._wall, source=self.dashboard, id="evaluation", title=self._title,
            version=self._version, classes="box full",
        )  # fmt: skip

    def listed(self) -> tuple[Sequence[Column], Sequence[Row]]:
        report = self._report()
        return ((), ()) if report is None else table_of(report)

    def clicked(self, panel: Panel, x: int, y: int, *, is_double: bool) -> None:
        report = self._report()
        shown = shown_view(report, self.view) if report is not None else ""
        if panel.id == "evaluation" and report is not None and shown == "table":
            glyphs = self.dashboard.glyphs
            self.set_table(self.table.clicked(place_in_report(report, *panel.drawn_size, self.table, glyphs, x, y)))
        elif panel.id == "evaluation" and report is not None and shown == "items":
            if not self.state.is_enlarged:
                self.set_table(self.table.clicked(place_in_items(report, *panel.drawn_size, self.table, x, y)))
            if is_double:
                self.action_enlarge()
        elif panel.id == "evaluation":
            self.action_view()
        else:
            super().clicked(panel, x, y, is_double=is_double)

    def wheeled_aside(self, notches: int) -> None:
        self._show_report(notches)

    def action_next_report(self) -> None:
        self._show_report(1)

    def action_previous_report(self) -> None:
        self._show_report(-1)

    def action_view(self) -> None:
        self.view += 1
        self.set_table(TableState())

    def action_counts(self) -> None:
        self.has_counts = not self.has_counts
        self.dashboard.draw()

    def action_enlarge(self) -> None:
        self._show(replace(self.state, is_enlarged=not self.state.is_enlarged))

    def action_boxes(self) -> None:
        self._show(replace(self.state, boxes=not self.state.boxes))

    def action_masks(self) -> None:
        self._show(replace(self.state, masks=not self.state.masks))

    def action_labels(self) -> None:
        self._show(replace(self.state, labels=not self.state.labels))

    def on_screen_suspend(self) -> None:
        """Removes the pictures, which would cover the screen or dialogue above."""
        self._wall.clear()

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self._wall.show)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _events(self) -> list[ReportEvent]:
        return list(self.dashboard.feed.view.reports.values())

    def _event(self) -> ReportEvent | None:
        events = self._events()
        return events[self.shown % len(events)] if events else None

    def _report(self) -> Report | None:
        """The shown report, read once."""
        event = self._event()
        if event is None:
            return None
        feed = self.dashboard.feed
        if self._read is None or self._read[0] is not feed or self._read[1] != event:
            self._read = feed, event, report_of(feed.report(event))
        return self._read[2]

    def _show_report(self, by: int) -> None:
        self.shown, self.view = self.shown + by, 0
        self.set_table(TableState())

    def _show(self, state: SamplesState) -> None:
        self.state = state
        self.dashboard.draw()

    def _title(self, frame: Frame) -> str:
        event, events = self._event(), self._events()
        if event is None:
            return "evaluation"
        title = f"{event.split}/{event.name}  step {event.step}  ({events.index(event) + 1} of {len(events)})"
        has_caption = event.caption and event.caption != event.name.rpartition("/")[2]
        return title + (f"  {event.caption}" if has_caption else "")

    def _version(self, frame: Frame) -> Hashable:
        return self._event(), self.view, self.table, len(self._events()), self.state, frame.has_color, self.has_counts

    def _draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        self._wall.begin()
        event, report = self._event(), self._report()
        if event is None or report is None:
            return [(("no report yet: evaluations write them, and e evaluates now", "dim"),)]
        if shown_view(report, self.view) == "items":
            hang = self._wall.hang if self._wall.form != "half" else None
            read = self.dashboard.feed.sample
            return draw_items(report, event, frame, width, height, self.table, self.state, read, hang)
        return draw_report(report, width, height, self.table, frame.glyphs, self.view, has_counts=self.has_counts)
