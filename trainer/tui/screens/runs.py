"""The runs of the folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.widget import Widget

from trainer.tui.box import FRAME_HEIGHT
from trainer.tui.charts import Chart
from trainer.tui.frame import Frame
from trainer.tui.listing import Column, Row
from trainer.tui.panel import Panel
from trainer.tui.panels.runs import Listing, draw_differences, draw_overlay, draw_runs, overlay, shared_metrics
from trainer.tui.screens.base import bindings_of
from trainer.tui.screens.table import TableScreen
from trainer.tui.text import Line

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard


class Runs(TableScreen):
    """All runs of the folder in a table; below, curves of the marked ones or differences of configurations."""

    BINDINGS = bindings_of("runs", "screen")
    scope = "runs"
    scrolling = "runs-table"

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(dashboard)
        self.metric: str | None = None
        self.differences: Mapping[str, tuple[Any, ...]] | None = None

    def body(self) -> Iterable[Widget]:
        source = self.dashboard
        yield Widget(
            Panel(self._draw_table, source=source, id="runs-table", title=self._table_title, classes="half"),
            Panel(self._draw_below, source=source, id="runs-below", title=self._below_title, classes="half"),
            id="runs-body",
        )

    def show(self, frame: Frame) -> None:
        """Draws a frame; the table is as tall as its rows, up to half of the screen."""
        tables = self.query("#runs-table")
        if tables:
            rows = FRAME_HEIGHT + 1 + max(2, len(self.dashboard.feed.siblings.summaries))
            tables.first().styles.height = min(rows, self.size.height // 2)
        super().show(frame)

    def listed(self) -> tuple[Sequence[Column], Sequence[Row]]:
        listing = self._listing()
        return listing.columns, listing.rows()

    def clicked(self, panel: Panel, x: int, y: int, *, is_double: bool) -> None:
        if panel.id == "runs-below":
            self.action_next_metric()
        else:
            super().clicked(panel, x, y, is_double=is_double)

    def action_choose(self) -> None:
        chosen = self.selected()
        if chosen is not None:
            self.dashboard.follow(chosen.item)

    def action_mark(self) -> None:
        chosen = self.selected()
        if chosen is not None:
            self.dashboard.feed.siblings.mark(chosen.item)
            if self.differences is not None:
                self.differences = self.dashboard.feed.siblings.differences()
        self.dashboard.draw()

    def action_next_metric(self) -> None:
        self._move_metric(1)

    def action_previous_metric(self) -> None:
        self._move_metric(-1)

    def action_differences(self) -> None:
        siblings = self.dashboard.feed.siblings
        self.differences = siblings.differences() if self.differences is None else None
        self.dashboard.draw()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _listing(self) -> Listing:
        siblings = self.dashboard.feed.siblings
        validations = {path: read.series for path, read in siblings.validations.items()}
        return Listing(
            siblings.listed(), list(siblings.marked), self._shown_metric(), validations, siblings.configs, self.searched
        )

    def _shown_metric(self) -> str | None:
        names = shared_metrics(self.dashboard.feed.siblings.marked)
        return self.metric if self.metric in names else next(iter(names), None)

    def _move_metric(self, by: int) -> None:
        names = shared_metrics(self.dashboard.feed.siblings.marked)
        shown = self._shown_metric()
        if shown is not None:
            self.metric = names[(names.index(shown) + by) % len(names)]
        self.dashboard.draw()

    def _chart(self) -> Chart | None:
        metric = self._shown_metric()
        return None if metric is None else overlay(self.dashboard.feed.siblings.marked, metric)

    def _table_title(self, frame: Frame) -> str:
        siblings = self.dashboard.feed.siblings
        where = "" if siblings.root is None else f" in {siblings.root.name}"
        filtered = f"  with {self.searched!r}" if self.searched else ""
        return f"runs  {len(siblings.summaries)}{where}{filtered}"

    def _draw_table(self, frame: Frame, width: int, height: int) -> list[Line]:
        self.dashboard.feed.siblings.read_configs()
        return draw_runs(frame, width, height, self._listing(), self.table)

    def _below_title(self, frame: Frame) -> str:
        if self.differences is not None:
            return "differences of the configurations"
        return self._shown_metric() or "curves"

    def _draw_below(self, frame: Frame, width: int, height: int) -> list[Line]:
        if self.differences is not None:
            names = [view.name for view in self.dashboard.feed.siblings.marked.values()]
            return draw_differences(frame, width, height, names, self.differences, 0)
        return draw_overlay(frame, width, height, self._chart())
