"""The trials of the sweep that the run belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from textual.widget import Widget

from trainer import TrainerError
from trainer.rundir.sweeps import SweepPaths, SweepState, is_sweep, read_state
from trainer.tui.frame import Frame
from trainer.tui.listing import Column, Row
from trainer.tui.panel import Panel
from trainer.tui.panels.sweep import (
    best_so_far,
    draw_best_so_far,
    draw_importance,
    draw_trials,
    summary,
    trial_columns,
    trial_rows,
)
from trainer.tui.screens.base import bindings_of
from trainer.tui.screens.table import TableScreen
from trainer.tui.text import Line

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard


class Sweep(TableScreen):
    """All trials in a table; below, the best metric so far and the importance of the parameters."""

    BINDINGS = bindings_of("sweep", "screen")
    scope = "sweep"
    scrolling = "trials"

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(dashboard)
        self.state: SweepState | None = None
        self._read: tuple[SweepPaths, int] | None = None

    def body(self) -> Iterable[Widget]:
        source = self.dashboard
        yield Widget(
            Panel(self._draw_table, source=source, id="trials", title=self._table_title, classes="half"),
            Widget(
                Panel(self._draw_chart, source=source, id="best-so-far", title=self._chart_title),
                Panel(self._draw_importance, source=source, id="importance", title=lambda frame: "importance"),
                id="sweep-below",
            ),
            id="sweep-body",
        )

    def show(self, frame: Frame) -> None:
        self._refresh()
        super().show(frame)

    def listed(self) -> tuple[Sequence[Column], Sequence[Row]]:
        return ((), ()) if self.state is None else (trial_columns(self.state), trial_rows(self.state, self.searched))

    def action_choose(self) -> None:
        """Shows the run of the selected trial; the first run if the trial has several seeds."""
        chosen = self.selected()
        if self.state is not None and chosen is not None:
            number = chosen.item.number
            root = self._paths().run(number, 0, self.state.seeds).root
            if root.is_dir():
                self.dashboard.follow(root)
            else:
                self.dashboard.say(f"trial {number} has no run yet")

    # --- inside -------------------------------------------------------------------------------------------------------

    def _paths(self) -> SweepPaths:
        return SweepPaths(self.dashboard.feed.paths.root.resolve().parent)

    def _refresh(self) -> None:
        """Reads the trials again if the file has been replaced."""
        paths = self._paths()
        try:
            version = (paths, paths.state.stat().st_mtime_ns) if is_sweep(paths.root) else None
            if version != self._read:
                self.state = None if version is None else read_state(paths)
                self._read = version
        except (OSError, TrainerError):
            self.state = self._read = None

    def _table_title(self, frame: Frame) -> str:
        filtered = f"  with {self.searched!r}" if self.searched else ""
        return "sweep" if self.state is None else f"{self._paths().root.name}  {summary(self.state)}{filtered}"

    def _chart_title(self, frame: Frame) -> str:
        return "best so far" if self.state is None else f"{self.state.metric}, best so far"

    def _draw_table(self, frame: Frame, width: int, height: int) -> list[Line]:
        return draw_trials(frame, width, height, self.state, self.table, self.searched)

    def _draw_chart(self, frame: Frame, width: int, height: int) -> list[Line]:
        return draw_best_so_far(frame, width, height, None if self.state is None else best_so_far(self.state))

    def _draw_importance(self, frame: Frame, width: int, height: int) -> list[Line]:
        return draw_importance(frame, width, height, {} if self.state is None else self.state.importance)
