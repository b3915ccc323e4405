"""The mouse on a screen: clicks, wheel, drags and hovers at a cell of a panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.errors import NoWidget

from trainer.tui.panel import Panel

if TYPE_CHECKING:
    from textual.geometry import Region
    from textual.widget import Widget

WHEEL_LINES = 3


class Pointed:
    """A screen whose panels receive mouse events, with the cell inside of their box.

    Attributes:
        is_followed: every motion is reported, not only those with a button held.
    """

    ALLOW_SELECT = False  # terminals select with Shift held
    is_followed = False

    def clicked(self, panel: Panel, x: int, y: int, *, is_double: bool) -> None:
        """Handles a click on a panel."""

    def wheeled(self, panel: Panel, x: int, y: int, notches: int) -> None:
        """Handles the wheel over a panel; down is positive."""

    def wheeled_aside(self, notches: int) -> None:
        """Handles the wheel turned sideways or with Shift; right is positive."""

    def dragged(self, panel: Panel, columns: int) -> None:
        """Handles a drag by `columns` that started on a panel: the mouse moved with a button held."""

    def hovered(self, panel: Panel | None, x: int, y: int) -> None:
        """Handles a motion over a panel (None: over none) without a button held."""

    # --- events of Textual --------------------------------------------------------------------------------------------

    if TYPE_CHECKING:  # every screen has it

        def get_widget_at(self, x: int, y: int) -> tuple[Widget, Region]: ...

    _dragging: Panel | None = None
    _dragged_to = 0

    def on_click(self, event: events.Click) -> None:
        panel = self._panel_at(event)
        if panel is not None and event.button == 1:
            self.clicked(panel, *_place(event, panel), is_double=event.chain == 2)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._dragging = self._panel_at(event) if event.button == 1 else None
        self._dragged_to = event.screen_x

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self._dragging = None

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if event.button and self._dragging is not None:
            columns, self._dragged_to = event.screen_x - self._dragged_to, event.screen_x
            if columns:
                self.dragged(self._dragging, columns)
        elif not event.button:
            panel = self._panel_at(event)
            self.hovered(panel, *((0, 0) if panel is None else _place(event, panel)))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -1)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self.wheeled_aside(1)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self.wheeled_aside(-1)

    def _wheel(self, event: events.MouseEvent, notches: int) -> None:
        panel = self._panel_at(event)
        if event.shift:
            self.wheeled_aside(notches)
        elif panel is not None:
            self.wheeled(panel, *_place(event, panel), notches)

    def _panel_at(self, event: events.MouseEvent) -> Panel | None:
        try:
            widget, _ = self.get_widget_at(event.screen_x, event.screen_y)
        except NoWidget:
            return None
        return widget if isinstance(widget, Panel) else None


def _place(event: events.MouseEvent, panel: Panel) -> tuple[int, int]:
    """The cell in the drawing of the panel; negative or beyond its size on the border."""
    left, top = panel.drawn_at
    return event.screen_x - panel.region.x - left, event.screen_y - panel.region.y - top
