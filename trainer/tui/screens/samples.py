"""Predictions next to their ground truth, and other pictures and texts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.widget import Widget

from trainer.tui.box import FRAME_HEIGHT, FRAME_WIDTH
from trainer.tui.frame import Frame
from trainer.tui.panel import Panel
from trainer.tui.panels.samples import (
    SamplesState,
    draw_samples,
    grid_of_samples,
    sample_at,
    samples_title,
    shown_items,
    shown_samples,
    steps_with_samples,
)
from trainer.tui.pixel_pictures import HungPanel, Wall
from trainer.tui.screens.base import RunScreen, bindings_of
from trainer.tui.text import Line

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard


class Samples(RunScreen):
    """The samples of one step in a grid; keys move through the history."""

    BINDINGS = bindings_of("samples", "screen")
    scope = "samples"
    scrolling = "samples"
    scroll_step = 1

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(dashboard)
        self.state = SamplesState()
        self._wall = Wall(dashboard)

    def body(self) -> Iterable[Widget]:
        yield HungPanel(
            self._draw, wall=self._wall, source=self.dashboard, id="samples", title=self._title, version=self._version,
            classes="box full",
        )  # fmt: skip

    def page_lines(self) -> int:
        return self._grid()[1]

    def scroll_lines(self, lines: int) -> None:
        self._select(self.state.selected + lines * self._grid()[0])

    def clicked(self, panel: Panel, x: int, y: int, *, is_double: bool) -> None:
        if panel.id != "samples":
            super().clicked(panel, x, y, is_double=is_double)
            return
        items = shown_items(self.dashboard.feed.view, self.state)
        sample = sample_at(items, self.dashboard.feed.sample, *panel.drawn_size, self.state, x, y)
        if sample is not None:
            self._select(sample)
        if is_double:
            self.action_enlarge()

    def wheeled_aside(self, notches: int) -> None:
        self._go_back(-notches)

    def action_older(self) -> None:
        self._go_back(1)

    def action_newer(self) -> None:
        self._go_back(-1)

    def action_enlarge(self) -> None:
        self._set(replace(self.state, is_enlarged=not self.state.is_enlarged))

    def action_next_sample(self) -> None:
        self._select(self.state.selected + 1)

    def action_previous_sample(self) -> None:
        self._select(self.state.selected - 1)

    def action_boxes(self) -> None:
        self._set(replace(self.state, boxes=not self.state.boxes))

    def action_masks(self) -> None:
        self._set(replace(self.state, masks=not self.state.masks))

    def action_labels(self) -> None:
        self._set(replace(self.state, labels=not self.state.labels))

    def action_errors(self) -> None:
        self._set(replace(self.state, errors=not self.state.errors))

    def on_screen_suspend(self) -> None:
        """Removes the pictures, which would cover the screen or dialogue above."""
        self._wall.clear()

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self._wall.show)

    def _grid(self) -> tuple[int, int]:
        """Columns and rows of the grid as it is drawn."""
        if self.state.is_enlarged:
            return 1, 1
        width, height = self.query_one("#samples").size
        items = shown_items(self.dashboard.feed.view, self.state)
        return grid_of_samples(items, self.dashboard.feed.sample, width - FRAME_WIDTH, height - FRAME_HEIGHT)

    def _go_back(self, steps: int) -> None:
        most = max(0, len(steps_with_samples(self.dashboard.feed.view)) - 1)
        self._set(replace(self.state, back=max(0, min(self.state.back + steps, most))))

    def _select(self, sample: int) -> None:
        count = len(shown_items(self.dashboard.feed.view, self.state))
        self._set(replace(self.state, selected=max(0, min(sample, count - 1))))

    def _set(self, state: SamplesState) -> None:
        self.state = state
        self.dashboard.draw()

    def _title(self, frame: Frame) -> str:
        return samples_title(frame.view, self.state)

    def _version(self, frame: Frame) -> Hashable:
        return (
            frame.is_first,
            self.state,
            tuple(event.file for event in shown_samples(frame.view, self.state)),
            frame.has_color,
        )

    def _draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        if frame.is_first:
            return []
        self._wall.begin()
        hang = self._wall.hang if self._wall.form != "half" else None
        return draw_samples(frame, width, height, self.state, self.dashboard.feed.sample, hang)
