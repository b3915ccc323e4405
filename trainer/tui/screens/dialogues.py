"""Boxes above a screen: how to stop, all keys, a line of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from textual import events
from textual.screen import ModalScreen
from textual.widget import Widget

from trainer.tui.frame import Frame
from trainer.tui.keys import MOUSE, Scope, actions_of, key_name
from trainer.tui.panel import Panel
from trainer.tui.screens.base import bindings_of
from trainer.tui.screens.pointing import WHEEL_LINES, Pointed
from trainer.tui.text import Line

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard


class Dialogue(Pointed, ModalScreen[str | None], inherit_bindings=False):
    """A box above the screen that lists its keys; it closes with the name of the chosen action."""

    def __init__(self, dashboard: Dashboard, title: str, lines: list[Line]) -> None:
        super().__init__()
        self._dashboard, self._title, self._listed = dashboard, title, lines

    def compose(self) -> Iterable[Widget]:
        box = Panel(self.draw, source=self._dashboard, id="dialogue", title=self._title, border_role="busy")
        box.styles.height = len(self._listed) + 2
        yield box

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """The lines of the box."""
        return self._listed

    def show(self, frame: Frame) -> None:
        """Draws a frame."""
        for panel in self.query(Panel):
            panel.show(frame)


class StopDialogue(Dialogue):
    """Asks how to stop: with a checkpoint, at once, or not at all."""

    BINDINGS = bindings_of("stop dialogue", "screen")

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(dashboard, "stop training?", _listing("stop dialogue"))

    def action_finish(self) -> None:
        self.dismiss("stop")

    def action_abort(self) -> None:
        self.dismiss("abort")

    def action_cancel(self) -> None:
        self.dismiss(None)

    def clicked(self, panel: Panel, x: int, y: int, *, is_double: bool) -> None:
        actions = list(actions_of("stop dialogue"))
        if 0 <= y < len(actions):
            getattr(self, f"action_{actions[y].name}")()

    def action_interrupt(self) -> None:
        self._listed = [*_listing("stop dialogue"), ((self._dashboard.interrupt_worker(), "warn"),)]
        self.query_one("#dialogue").styles.height = len(self._listed) + 2


class HelpDialogue(Dialogue):
    """All keys, from the table that dispatches them, the keys of the current screen first; scrollable."""

    BINDINGS = bindings_of("help", "screen")

    def __init__(self, dashboard: Dashboard, scope: Scope) -> None:
        lines: list[Line] = []
        for title, of in ((f"on the screen {scope}", scope), ("everywhere", "everywhere"),
                          ("in the stop dialogue", "stop dialogue")):  # fmt: skip
            rows = _listing(of)
            lines += [((title, "dim"),), *rows] if rows else []
        lines.append((("with the mouse", "dim"),))
        lines += [((what.ljust(17), "key"), (does, "text")) for what, does in MOUSE]
        super().__init__(dashboard, "keys", lines)
        self._scrolled = 0

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        self._scrolled = min(self._scrolled, max(0, len(self._listed) - height))
        return self._listed[self._scrolled :]

    def action_scroll_up(self) -> None:
        self._scroll(-1)

    def action_scroll_down(self) -> None:
        self._scroll(1)

    def _scroll(self, lines: int) -> None:
        self._scrolled = max(0, self._scrolled + lines)
        self._dashboard.draw()

    def wheeled(self, panel: Panel, x: int, y: int, notches: int) -> None:
        self._scroll(notches * WHEEL_LINES)

    def action_close(self) -> None:
        self.dismiss(None)


class TextEntry(Dialogue):
    """A line of text. `on_change` receives it after each letter, and the previous text after a cancel."""

    BINDINGS = bindings_of("text entry", "screen")

    def __init__(self, dashboard: Dashboard, title: str, text: str, on_change: Callable[[str], None]) -> None:
        super().__init__(dashboard, title, [(("", "text"),)])
        self._before, self._text, self._on_change = text, text, on_change

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        return [((self._text[-max(1, width - 1) :], "strong"), (frame.glyphs.bar_full[:1], "busy"))]

    def on_key(self, event: events.Key) -> None:
        """Adds letters to the text; all other keys are in the key table."""
        if event.character is not None and event.character.isprintable():
            event.stop()
            self._put(self._text + event.character)

    def action_erase(self) -> None:
        self._put(self._text[:-1])

    def action_erase_all(self) -> None:
        self._put("")

    def action_accept(self) -> None:
        self.dismiss(None)

    def action_cancel(self) -> None:
        self._on_change(self._before)
        self.dismiss(None)

    def _put(self, text: str) -> None:
        self._text = text
        self._on_change(text)
        self._dashboard.draw()


def _listing(scope: Scope) -> list[Line]:
    """The key table as lines."""
    return [
        ((" / ".join(map(key_name, action.keys)).ljust(17), "key"), (action.help, "text"))
        for action in actions_of(scope)
    ]
