"""The Textual app: a loop that reads the feed and draws, and the actions of keys and command palette."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partialmethod
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import RenderableType
from textual._compositor import ChopsUpdate
from textual.app import App, SystemCommand
from textual.screen import Screen
from textual.timer import Timer

from trainer import TrainerError
from trainer.tui.feed import Feed
from trainer.tui.forms import Form
from trainer.tui.frame import Frame, WatchedRun, frame_of
from trainer.tui.glyphs import LETTERS, choose_glyphs
from trainer.tui.keys import SCREENS, Scope, actions_of
from trainer.tui.overview import NORMAL_COLUMNS, TALL_ROWS, WIDE_COLUMNS
from trainer.tui.pace import (
    BEHIND_SECONDS,
    FIRST_FRAME_SECONDS,
    FIRST_READ_SECONDS,
    LOOK_AFTER_SECONDS,
    MESSAGE_SECONDS,
    READ_SECONDS,
    FrameCost,
    pause_between_frames,
    pause_between_motions,
)
from trainer.tui.palette import choose_palette
from trainer.tui.screens import Dialogue, HelpDialogue, Overview, RunScreen, StopDialogue, TextEntry, screen_named
from trainer.tui.update import NarrowUpdate

if TYPE_CHECKING:
    from trainer.tui.first_frame import FirstFrame

CSS = """
Screen { layout: vertical; overflow: hidden; background: ansi_default; color: ansi_default; }
Panel { height: 1fr; width: 1fr; }
.row { height: 1; }
#tabs { display: none; }
#body { height: 1fr; width: 1fr; }
.-narrow #tabs, .-low #tabs { display: block; }
.-narrow #diagnosis, .-low #diagnosis { display: none; }
#charts { height: 1fr; width: 1fr; layout: grid; }
#runs-body, #sweep-body { height: 1fr; width: 1fr; layout: vertical; }
#sweep-below { height: 1fr; width: 1fr; layout: horizontal; }
#best-so-far { width: 3fr; }
#importance { width: 2fr; }
Dialogue { align: center middle; background: transparent; }
TextEntry { align: center bottom; }
#dialogue { width: 80; max-width: 100%; max-height: 100%; background: ansi_default; }
"""


class Dashboard(App[str], inherit_bindings=False):
    """The dashboard of one run. Its result is one of `detached`, `finished`, `stopped`, `terminated`, `hung_up`.

    Args:
        feed: the run.
        owner: whether the command that started the run owns this dashboard: it closes after a stop requested here.
        look_after: called about once a second.
        environment: the terminal's environment (TERM, LC_ALL, …).
        pictures: how samples are shown.
        note: a message to show first.
        begins_with_sweep: the trials of the run's sweep are shown first.
        first_frame: the drawing on the terminal until this dashboard takes over.
    """

    CSS = CSS
    ENABLE_COMMAND_PALETTE = True
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (NORMAL_COLUMNS, "-normal"), (WIDE_COLUMNS, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (TALL_ROWS, "-tall")]
    BINDINGS: ClassVar = []

    def __init__(
        self,
        feed: Feed,
        *,
        owner: bool = False,
        look_after: Callable[[], object] | None = None,
        environment: Mapping[str, str],
        pictures: Form = "half",
        note: str = "",
        begins_with_sweep: bool = False,
        first_frame: FirstFrame | None = None,
    ) -> None:
        super().__init__(driver_class=_driver_class(), ansi_color=True)  # the terminal's own colors
        self.theme = "ansi-dark"
        self.feed = feed
        self.owner = owner
        self._look_after, self._last_call_at = look_after, 0.0
        self._wake = asyncio.Event()
        self.environment, self.first_frame = environment, first_frame
        self.glyphs = choose_glyphs(environment)
        self.palette = choose_palette(self.console.color_system)
        self.pictures: Form = pictures
        self.is_first = True
        self.asked_to_stop = False
        self._message, self._begins_with_sweep = note, begins_with_sweep
        self._message_until = feed.clock() + MESSAGE_SECONDS
        self._acknowledged: str | None = None
        self._drawn_at, self._cost = 0.0, FrameCost()
        self._shows_step = False
        self._pointer_drawn_at, self._is_drawing_soon = 0.0, False
        self._config: tuple[str, ...] = ()
        self._made: set[str] = set()

    def get_default_screen(self) -> Screen[None]:
        """The overview at the bottom of the stack, laid out for this terminal from its first frame.

        The run is read again first: a worker that has just started has advanced since the last read.
        """
        self.feed.poll(FIRST_READ_SECONDS)
        overview = Overview(self)
        both = (self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS)
        for length, breakpoints in zip(self.size, both, strict=True):
            overview.add_class(max(point for point in breakpoints or () if point[0] <= length)[1])
        return overview

    def on_mount(self) -> None:
        """Defers expensive work until after the first frame.

        The timer is needed because a key that opens another screen before the first refresh prevents the callback.
        """
        self.call_after_refresh(self._after_first_frame)
        asyncio.get_running_loop().call_later(FIRST_FRAME_SECONDS, self._after_first_frame)

    def frame(self) -> Frame:
        """The current state of the run, ready to be drawn."""
        return frame_of(
            self.feed,
            glyphs=self.glyphs,
            message=self._message,
            config=self._config,
            screen=self._scope(),
            has_color=self.console.color_system is not None,
            is_first=self.is_first and (self.first_frame is None or not self.first_frame.has_charts),
            watched=self._watched_runs(),
        )

    def advance(self) -> float:
        """Reads new records, draws if a frame is due, and closes after a stop that was requested here.

        Returns:
            Seconds until the next call.
        """
        was_behind = self._is_behind()
        self._cost.reading()
        self.feed.poll(READ_SECONDS)
        if self._shows_other_runs():
            self.feed.siblings.poll(self.feed.clock(), READ_SECONDS)
        self._cost.has_read()
        is_behind = self._is_behind()
        self._update_message()
        self._look_after_worker()
        now, status = self.feed.clock(), self.feed.status()
        view = self.feed.view
        pause = pause_between_frames(
            status, view.system, self.environment,
            has_stepped=self._shows_step, frame_seconds=self._cost.seconds,
        )  # fmt: skip
        has_caught_up = was_behind and not is_behind
        if has_caught_up or now - self._drawn_at >= pause - 0.01 or now < self._drawn_at:
            self._drawn_at, self._shows_step = now, view.step is not None
            self._cost.next_frame()
            self.draw()
        if self.owner and self.asked_to_stop and status.is_over:
            self.action_detach()
        return BEHIND_SECONDS if is_behind else self._drawn_at + pause - now

    def draw(self) -> None:
        """Draws the current state of the run on every screen of the stack."""
        frame = self.frame()
        for screen in self.screen_stack:
            if isinstance(screen, RunScreen | Dialogue):
                screen.show(frame)

    def draw_soon(self) -> None:
        """Draws for the mouse at a limited rate: the mouse reports more often than frames are allowed."""
        if self._is_drawing_soon:
            return
        wait = self._pointer_drawn_at + pause_between_motions(self.environment) - self._loop_time()
        if wait <= 0:
            self._draw_for_pointer()
        else:
            self._is_drawing_soon = True
            asyncio.get_running_loop().call_later(wait, self._draw_for_pointer)

    def set_timer(self, *arguments: Any, **options: Any) -> Timer:
        """Creates Textual's one-shot timer, which here also fires if the system delays it by more than its interval.

        Textual skips late timers. It sets one of 8 ms after each resize of the terminal: after a skipped timer, no
        further resize was handled.
        """
        timer = super().set_timer(*arguments, **options)
        timer._skip = False
        return timer

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Writes the changed cells of an update."""
        super()._display(screen, NarrowUpdate(renderable) if isinstance(renderable, ChopsUpdate) else renderable)

    def say(self, message: str) -> None:
        """Shows a message in the last line for a few seconds."""
        self._message, self._message_until = message, self.feed.clock() + MESSAGE_SECONDS
        self.draw()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yields the global actions of the key table for the command palette."""
        for action in actions_of("everywhere"):
            if action.in_palette:
                yield SystemCommand(action.label.capitalize(), action.help, getattr(self, f"action_{action.name}"))

    # --- actions: one for each row of the key table; those of screens are created from `SCREENS` below --

    def action_previous_run(self) -> None:
        self._show_neighbor(-1)

    def action_next_run(self) -> None:
        self._show_neighbor(1)

    def action_checkpoint(self) -> None:
        self.say(self.feed.request("checkpoint"))

    def action_evaluate(self) -> None:
        self.say(self.feed.request("evaluate"))

    def action_pause(self) -> None:
        self.say(self.feed.request("resume" if self.feed.view.paused else "pause"))

    def action_stop(self) -> None:
        if (why := self.feed.why_over()) is not None:
            self.say(f"{why}; q leaves")
            return
        self.push_screen(StopDialogue(self), self._stop_as_chosen)

    def action_interrupt(self) -> None:
        if self.feed.status().is_over:
            self.action_detach()
        else:
            self.action_stop()

    def action_detach(self) -> None:
        end = self.feed.view.end
        if end is not None and end.status in ("stopped", "pruned", "interrupted"):
            self.exit("stopped")
        else:
            self.exit("finished" if self.feed.status().is_over else "detached")

    def action_help(self) -> None:
        self.push_screen(HelpDialogue(self, self._scope()))

    def action_scroll_up(self) -> None:
        self._scroll(lambda screen: -screen.scroll_step)

    def action_scroll_down(self) -> None:
        self._scroll(lambda screen: screen.scroll_step)

    def action_page_up(self) -> None:
        self._scroll(lambda screen: -screen.page_lines())

    def action_page_down(self) -> None:
        self._scroll(lambda screen: screen.page_lines())

    def action_scroll_home(self) -> None:
        self._scroll(lambda screen: -1_000_000)

    def action_scroll_end(self) -> None:
        self._scroll(lambda screen: 1_000_000)

    def enter_text(self, title: str, text: str, on_change: Callable[[str], None]) -> None:
        """Lets the user type a line; `on_change` receives it after each letter."""
        self.push_screen(TextEntry(self, title, text, on_change))

    def follow(self, root: Path) -> None:
        """Switches to another run."""
        self._move_to(root)
        self.show_screen("overview")

    def show_run(self, number: int) -> None:
        """Shows another watched run on the current screen."""
        self._move_to(self.feed.watched[number % len(self.feed.watched)])
        if self._scope() == "config":
            self.show_screen("config")
        self.draw()
        self._wake.set()

    def _show_neighbor(self, by: int) -> None:
        if not self.feed.watched:
            self.say("only one run is watched; `trainer watch A B` watches several, 6 lists the folder")
            return
        self.show_run(self.feed.watched.index(self.feed.paths.root.resolve()) + by)

    def _move_to(self, root: Path) -> None:
        if root.resolve() == self.feed.paths.root.resolve():
            return
        self.feed = self.feed.moved_to(root)
        self.owner = self.asked_to_stop = False
        self._acknowledged, self._message = None, ""
        self.feed.poll(FIRST_READ_SECONDS)
        self.feed.read_preview()

    def leave(self, how: str) -> None:
        """Ends the dashboard for an external reason: `terminated` by a signal, `hung_up` without a terminal."""
        self.exit(how)

    def interrupt_worker(self) -> str:
        """Sends the worker an interrupt, as a second Ctrl-C does; returns a message."""
        self.asked_to_stop = True
        return self.feed.interrupt()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _after_first_frame(self) -> None:
        if not self.is_first or not self.is_running:
            return
        ask = getattr(self._driver, "ask_terminal", None)
        if ask is not None:
            ask()
        self.is_first = False
        if self.first_frame is not None:
            gc.freeze()  # imported modules stay, so the collector can skip them
            gc.enable()
        self.feed.read_preview()
        # in parallel with the next frames: the first chart would wait for NumPy, most of a second if cores are busy
        asyncio.get_running_loop().run_in_executor(None, importlib.import_module, "trainer.tui.plot")
        self._drawn_at = 0.0
        if self._scope() == "overview":  # a key may have chosen another screen by now
            if self.feed.watched:
                self.show_screen("runs")
            elif self._begins_with_sweep:
                self.show_screen("sweep")
        self.run_worker(self._keep_advancing())

    async def _keep_advancing(self) -> None:
        """Reads and draws until the app ends.

        It uses no Textual timer, which never fires if the system delays it by more than its interval.
        """
        while True:
            self._wake.clear()
            pause = self.advance()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause)

    def _is_behind(self) -> bool:
        """Whether the shown runs have more to read."""
        return self.feed.is_behind or (self._shows_other_runs() and self.feed.siblings.is_behind)

    def _shows_other_runs(self) -> bool:
        """Whether other runs are shown too: in their table, or in tabs."""
        return not self.is_first and (bool(self.feed.watched) or self._scope() == "runs")

    def _watched_runs(self) -> tuple[WatchedRun, ...]:
        if self.is_first:
            return ()
        summaries = self.feed.siblings.summaries if self.feed.watched else {}
        shown = self.feed.paths.root.resolve()
        return tuple(
            WatchedRun(letter, path.name, summaries[path].status if path in summaries else "", path == shown)
            for letter, path in zip(cycle(LETTERS), self.feed.watched, strict=False)
        )

    def _draw_for_pointer(self) -> None:
        self._is_drawing_soon, self._pointer_drawn_at = False, self._loop_time()
        if self.is_running:
            self.draw()

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()

    def _look_after_worker(self) -> None:
        now = self.feed.clock()
        if self._look_after is not None and not 0 <= now - self._last_call_at < LOOK_AFTER_SECONDS:
            self._last_call_at = now
            try:
                self._look_after()
            except TrainerError as error:  # a full disk; the caller checks once more after the dashboard
                self._look_after = None
                self.say(str(error))

    def _update_message(self) -> None:
        answer = self.feed.acknowledgement()
        if answer != self._acknowledged:
            self._acknowledged = answer
            self._message, self._message_until = answer or "", self.feed.clock() + MESSAGE_SECONDS
        elif self._message and self.feed.clock() >= self._message_until:
            self._message = ""

    def _stop_as_chosen(self, what: str | None) -> None:
        if what is not None:
            self.asked_to_stop = True
            self.say(self.feed.request(what))

    def _scope(self) -> Scope:
        """The scope of the top screen, or of the screen below a dialogue."""
        screens = [screen for screen in self._screen_stack if isinstance(screen, RunScreen)]
        return screens[-1].scope if screens else "overview"

    def show_screen(self, name: str) -> None:
        """Shows the screen with this name, one of `SCREENS`."""
        if name == "config":
            self._config = tuple(self.feed.config_text().splitlines())
        if name != self._scope():
            if len(self.screen_stack) > 1:
                self.pop_screen()
            if name != Overview.scope:
                if name not in self._made:  # created once, so that its choices stay
                    self._made.add(name)
                    self.install_screen(screen_named(name)(self), name)
                self.push_screen(name)
        follow = getattr(self._driver, "follow_pointer", None)
        if follow is not None:
            follow(isinstance(self.screen, RunScreen) and self.screen.is_followed)
        self.call_after_refresh(self.draw)
        self._wake.set()

    def _scroll(self, lines: Callable[[RunScreen], int]) -> None:
        if isinstance(self.screen, RunScreen):
            self.screen.scroll_lines(lines(self.screen))
            self.draw()


for _name in SCREENS:
    setattr(Dashboard, f"action_{_name}", partialmethod(Dashboard.show_screen, _name))


def _driver_class() -> type | None:
    """This package's driver for POSIX terminals; None elsewhere and in a browser, where Textual uses its own."""
    if "TEXTUAL_DRIVER" in os.environ:
        return None
    try:
        from trainer.tui.driver import DashboardDriver
    except ImportError:
        return None
    return DashboardDriver
