"""The screens: which panels stand on each, and two small dialogues. A later screen is one more class here or beside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen
from textual.widget import Widget

from trainer.tui.box import FRAME_HEIGHT
from trainer.tui.frame import Frame
from trainer.tui.keys import Scope, actions_of, key_name
from trainer.tui.panel import Panel
from trainer.tui.panels.chart import chart_title, chart_version, draw_chart_panel
from trainer.tui.panels.config import draw_config
from trainer.tui.panels.footer import draw_footer
from trainer.tui.panels.header import draw_header
from trainer.tui.panels.log import draw_log
from trainer.tui.panels.phases import draw_phases
from trainer.tui.panels.progress import draw_progress
from trainer.tui.panels.system import draw_system
from trainer.tui.panels.tabs import PANES, draw_tabs
from trainer.tui.text import Line

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard


def bindings_of(scope: Scope, target: str) -> list[BindingType]:
    """The key table's rows of one scope as Textual wants them; `target` is `app` or `screen`."""
    return [
        Binding(",".join(action.keys), f"{target}.{action.name}", action.label, show=False)
        for action in actions_of(scope)
    ]


class RunScreen(Screen[None], inherit_bindings=False):
    """A screen of the run: header, body, footer.

    Attributes:
        panes: the panes that share the body where there is room for one.
        pane: the one shown then.
        scrolled: by how many lines the screen's text is scrolled away from where it starts.
        scrolling: the panel that scrolls; `scroll_direction` is -1 where its text starts at the end.
    """

    BINDINGS = bindings_of("everywhere", "app")
    panes: ClassVar[tuple[str, ...]] = ()
    scrolling: ClassVar[str]
    scroll_direction: ClassVar[int] = 1

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__()
        self.dashboard = dashboard
        self.pane = self.panes[0] if self.panes else ""
        self.scrolled = 0

    def compose(self) -> Iterable[Widget]:
        yield Panel(draw_header, source=self.dashboard, id="header", classes="row")
        yield from self.body()
        yield Panel(draw_footer, source=self.dashboard, id="footer", classes="row")

    def body(self) -> Iterable[Widget]:
        """The widgets between header and footer."""
        raise TypeError(f"{type(self).__name__} has no body")

    def show(self, frame: Frame) -> None:
        """Draw a frame on every panel."""
        frame = replace(frame, scroll=self.scrolled, pane=self.pane)
        for panel in self.query(Panel):
            panel.show(frame)

    def scroll_lines(self, lines: int) -> None:
        """Scroll the text by some lines down (negative: up), no further than it goes."""
        room = self.query_one(f"#{self.scrolling}").size.height - FRAME_HEIGHT
        limit = max(0, self.text_lines() - room)
        self.scrolled = min(limit, max(0, self.scrolled + lines * self.scroll_direction))

    def text_lines(self) -> int:
        """How many lines there are to scroll through."""
        raise TypeError(f"{type(self).__name__} does not say how long its text is")

    def move_pane(self, by: int) -> None:
        """Show another pane."""
        if self.panes:
            self.pane = self.panes[(self.panes.index(self.pane) + by) % len(self.panes)]
            self.mark_pane()

    def mark_pane(self) -> None:
        """Tell the style sheet which pane is shown."""
        for name in self.panes:
            self.query_one(f"#{name}").set_class(name == self.pane, "shown")


class Overview(RunScreen):
    """Everything at a glance."""

    panes = tuple(PANES)
    scrolling = "log"
    scroll_direction = -1  # the log starts at its end

    def text_lines(self) -> int:
        return len(self.dashboard.feed.view.log)

    def body(self) -> Iterable[Widget]:
        source = self.dashboard
        yield Panel(draw_tabs, source=source, id="tabs", classes="row")
        yield Widget(
            Panel(draw_phases, source=source, id="phases", title="phases", classes="box shown"),
            *(
                Panel(
                    draw_chart_panel(name),
                    source=source,
                    id=name,
                    title=chart_title(name),
                    version=chart_version(name),
                    classes="box",
                )
                for name in ("loss", "valid")
            ),
            Panel(draw_system, source=source, id="system", title="system", classes="box"),
            Panel(
                draw_chart_panel("rate"),
                source=source,
                id="rate",
                title=chart_title("rate"),
                version=chart_version("rate"),
                classes="box",
            ),
            Panel(draw_log, source=source, id="log", title="log", classes="box"),
            id="body",
        )
        yield Panel(draw_progress, source=source, id="progress", classes="row")


class Config(RunScreen):
    """The resolved configuration."""

    scrolling = "config"

    def text_lines(self) -> int:
        return len(self.dashboard.frame().config)

    def body(self) -> Iterable[Widget]:
        yield Panel(draw_config, source=self.dashboard, id="config", title="config", classes="box full")


class Dialogue(ModalScreen[str | None], inherit_bindings=False):
    """A box above the screen that lists its keys; it closes with the name of what was chosen."""

    def __init__(self, dashboard: Dashboard, title: str, lines: list[Line]) -> None:
        super().__init__()
        self._dashboard, self._title, self._listed = dashboard, title, lines

    def compose(self) -> Iterable[Widget]:
        box = Panel(
            lambda frame, width, height: self._listed, source=self._dashboard, id="dialogue", title=self._title,
            border_role="busy",
        )  # fmt: skip
        box.styles.height = len(self._listed) + 2
        yield box

    def show(self, frame: Frame) -> None:
        """Draw a frame."""
        for panel in self.query(Panel):
            panel.show(frame)


class StopDialogue(Dialogue):
    """How to stop: in order, at once, or not at all."""

    BINDINGS = bindings_of("stop dialogue", "screen")

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(dashboard, "stop training?", _listing("stop dialogue"))

    def action_finish(self) -> None:
        self.dismiss("stop")

    def action_abort(self) -> None:
        self.dismiss("abort")

    def action_cancel(self) -> None:
        self.dismiss(None)

    def action_interrupt(self) -> None:
        self._listed = [*_listing("stop dialogue"), ((self._dashboard.interrupt_worker(), "warn"),)]
        self.query_one("#dialogue").styles.height = len(self._listed) + 2


class HelpDialogue(Dialogue):
    """All keys, from the table that dispatches them."""

    BINDINGS = bindings_of("help", "screen")

    def __init__(self, dashboard: Dashboard) -> None:
        heading: Line = (("in the stop dialogue", "dim"),)
        super().__init__(dashboard, "keys", [*_listing("everywhere"), heading, *_listing("stop dialogue")])

    def action_close(self) -> None:
        self.dismiss(None)


def _listing(scope: Scope) -> list[Line]:
    """The key table as lines."""
    return [
        ((" / ".join(map(key_name, action.keys)).ljust(17), "key"), (action.help, "text"))
        for action in actions_of(scope)
    ]
