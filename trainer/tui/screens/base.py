"""The parts that all screens share: header, body, footer; scrolling; the keys of their scope."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget

from trainer.tui.box import FRAME_HEIGHT
from trainer.tui.frame import Frame
from trainer.tui.keys import Scope, actions_of
from trainer.tui.panel import Panel
from trainer.tui.panels.footer import action_at, draw_footer, footer_version
from trainer.tui.panels.header import draw_header
from trainer.tui.panels.run_tabs import draw_run_tabs, run_at
from trainer.tui.screens.pointing import WHEEL_LINES, Pointed

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard


def bindings_of(scope: Scope, target: str) -> list[BindingType]:
    """The key table's rows of one scope as Textual bindings; `target` is `app` or `screen`."""
    return [
        Binding(",".join(action.keys), f"{target}.{action.name}", action.label, show=False)
        for action in actions_of(scope)
    ]


class RunScreen(Pointed, Screen[None], inherit_bindings=False):
    """A screen of the run: header, body, footer.

    Attributes:
        scope: the scope of its keys, in addition to the keys that work everywhere.
        panes: the panes that share the body on a terminal with room for one.
        pane: the pane shown there.
        scrolled: number of lines by which the screen's text is scrolled from its start.
        searched: the filter text; only content that contains it is shown.
        scrolling: the panel that scrolls, by `scroll_step` lines; `scroll_direction` is -1 if its text starts at its
            end.
    """

    BINDINGS = bindings_of("everywhere", "app")
    scope: ClassVar[Scope] = "everywhere"
    panes: ClassVar[tuple[str, ...]] = ()
    scrolling: ClassVar[str]
    scroll_direction: ClassVar[int] = 1
    scroll_step: ClassVar[int] = 5

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__()
        self.dashboard = dashboard
        self.pane = self.panes[0] if self.panes else ""
        self.scrolled = 0
        self.searched = ""

    def compose(self) -> Iterable[Widget]:
        yield Panel(draw_header, source=self.dashboard, id="header", classes="row")
        if self.dashboard.feed.watched:
            yield Panel(draw_run_tabs, source=self.dashboard, id="run-tabs", classes="row")
        yield from self.body()
        yield Panel(draw_footer, source=self.dashboard, id="footer", version=footer_version, classes="row")

    def body(self) -> Iterable[Widget]:
        """The widgets between header and footer."""
        raise TypeError(f"{type(self).__name__} has no body")

    def show(self, frame: Frame) -> None:
        """Draws a frame on every panel."""
        frame = frame._replace(scroll=self.scrolled, pane=self.pane, screen=self.scope)
        for panel in self.query(Panel):
            panel.show(frame)

    def scroll_lines(self, lines: int) -> None:
        """Scrolls the text down by `lines` (negative: up), within its length."""
        limit = max(0, self.text_lines() - self.page_lines())
        self.scrolled = min(limit, max(0, self.scrolled + lines * self.scroll_direction))

    def page_lines(self) -> int:
        """The number of lines shown at once."""
        return max(1, self.query_one(f"#{self.scrolling}").size.height - FRAME_HEIGHT)

    def clicked(self, panel: Panel, x: int, y: int, *, is_double: bool) -> None:
        if panel.id == "footer":
            action = action_at(self.dashboard.frame()._replace(screen=self.scope), panel.size.width, x)
            if action is not None:
                getattr(self.dashboard if action.scope == "everywhere" else self, f"action_{action.name}")()
        elif panel.id == "header":
            self.dashboard.action_help()
        elif panel.id == "run-tabs":
            number = run_at(self.dashboard.frame(), x)
            if number is not None:
                self.dashboard.show_run(number)

    def wheeled(self, panel: Panel, x: int, y: int, notches: int) -> None:
        self.scroll_lines(notches * min(WHEEL_LINES, self.page_lines()))
        self.dashboard.draw_soon()

    def text_lines(self) -> int:
        """The number of lines to scroll through."""
        raise TypeError(f"{type(self).__name__} does not say how long its text is")

    def search(self, text: str) -> None:
        """Shows only content that contains this text; called after each typed letter."""
        raise TypeError(f"{type(self).__name__} has nothing to search in")

    def action_search(self) -> None:
        self.dashboard.enter_text("search", self.searched, self.search)

    def move_pane(self, by: int) -> None:
        """Shows the next pane, or with a negative number the previous one."""
        self.show_pane(self.panes[(self.panes.index(self.pane) + by) % len(self.panes)])

    def show_pane(self, pane: str) -> None:
        """Shows a pane."""
        raise TypeError(f"{type(self).__name__} has no panes")
