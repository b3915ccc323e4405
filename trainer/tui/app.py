"""The Textual shell: a clock that reads the feed and draws, and the actions that keys and palette call."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
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
from trainer.tui.keys import Scope, actions_of
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
#body { height: 1fr; width: 1fr; layout: grid; grid-size: 2; grid-columns: 32 1fr; grid-rows: 4fr 3fr 6; }
#phases { row-span: 2; }
#rate { display: none; }
.-wide #body { grid-size: 4; grid-columns: 32 1fr 1fr 30; grid-rows: 3fr 2fr 9; }
.-wide #valid, .-wide #system { row-span: 2; }
.-wide #rate { display: block; }
#body #samples { display: none; }
.-wide.-sampled #valid { row-span: 1; }
.-wide.-sampled #body #samples { display: block; }
.-wide #log { column-span: 4; }
.-narrow #tabs, .-low #tabs { display: block; }
.-narrow #body, .-low #body { layout: vertical; }
.-narrow #body .box, .-low #body .box { display: none; }
.-narrow #body .shown, .-low #body .shown { display: block; }
#charts { height: 1fr; width: 1fr; layout: grid; }
#runs-body { height: 1fr; width: 1fr; layout: vertical; }
Dialogue { align: center middle; background: transparent; }
TextEntry { align: center bottom; }
#dialogue { width: 80; max-width: 100%; max-height: 100%; background: ansi_default; }
"""


class Dashboard(App[str], inherit_bindings=False):
    """The dashboard of one run. Its result is one of `detached`, `finished`, `stopped`, `terminated`, `hung_up`.

    Args:
        feed: the run.
        owner: this dashboard belongs to the command that started the run: it leaves by itself once the stop that was
            asked for here is done.
        look_after: called about once a second.
        environment: the terminal's environment (TERM, LC_ALL, …).
        pictures: how samples are shown.
        note: something to be said at first.
        first_frame: what has the terminal until this dashboard does.
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
        first_frame: FirstFrame | None = None,
    ) -> None:
        super().__init__(driver_class=_driver_class(), ansi_color=True)  # the terminal's own colours
        self.theme = "ansi-dark"
        self.feed = feed
        self.owner = owner
        self._look_after, self._looked_after_at = look_after, 0.0
        self._wake = asyncio.Event()
        self.environment, self.first_frame = environment, first_frame
        self.glyphs = choose_glyphs(environment)
        self.palette = choose_palette(self.console.color_system)
        self.pictures: Form = pictures
        self.is_first = True
        self.asked_to_stop = False
        self._message = note
        self._message_until = feed.clock() + MESSAGE_SECONDS
        self._acknowledged: str | None = None
        self._drawn_at, self._cost = 0.0, FrameCost()
        self._pointer_drawn_at, self._is_drawing_soon = 0.0, False
        self._config: tuple[str, ...] = ()
        self._made: set[str] = set()

    def get_default_screen(self) -> Screen[None]:
        """The overview stands at the bottom of the stack, laid out for this terminal from its first frame on.

        It shows the run as it stands now: a worker that has just started has got on since the command was.
        """
        self.feed.poll(FIRST_READ_SECONDS)
        overview = Overview(self)
        both = (self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS)
        for length, breakpoints in zip(self.size, both, strict=True):
            overview.add_class(max(point for point in breakpoints or () if point[0] <= length)[1])
        return overview

    def on_mount(self) -> None:
        """Draw once; what costs time comes after that.

        A key of the very first instant that opens another screen keeps Textual from ever calling back: hence the delay.
        """
        self.call_after_refresh(self._after_first_frame)
        asyncio.get_running_loop().call_later(FIRST_FRAME_SECONDS, self._after_first_frame)

    def frame(self) -> Frame:
        """The run as it stands now, ready to be drawn."""
        return frame_of(
            self.feed,
            glyphs=self.glyphs,
            message=self._message,
            config=self._config,
            screen=self._scope(),
            has_colour=self.console.color_system is not None,
            is_first=self.is_first and (self.first_frame is None or not self.first_frame.has_charts),
            watched=self._watched_runs(),
        )

    def advance(self) -> float:
        """Read on; draw, if it is time; leave, if a stop that was asked for here is done.

        Returns:
            After how many seconds there is something to do again.
        """
        was_behind = self._is_behind()
        self._cost.reading()
        self.feed.poll(READ_SECONDS)
        if self._looks_beside():
            self.feed.siblings.poll(self.feed.clock(), READ_SECONDS)
        self._cost.has_read()
        is_behind = self._is_behind()
        self._look_for_answer()
        self._look_after_worker()
        now, status = self.feed.clock(), self.feed.status()
        view = self.feed.view
        pause = pause_between_frames(
            status, view.system, self.environment,
            has_stepped=view.step is not None, frame_seconds=self._cost.seconds,
        )  # fmt: skip
        has_caught_up = was_behind and not is_behind
        if has_caught_up or now - self._drawn_at >= pause - 0.01 or now < self._drawn_at:
            self._drawn_at = now
            self._cost.next_frame()
            self.draw()
        if self.owner and self.asked_to_stop and status.is_over:
            self.action_detach()
        return BEHIND_SECONDS if is_behind else pause

    def draw(self) -> None:
        """Draw the run as it stands on every screen of the stack."""
        frame = self.frame()
        for screen in self.screen_stack:
            if isinstance(screen, RunScreen | Dialogue):
                screen.show(frame)

    def draw_soon(self) -> None:
        """Draw for the mouse, whose reports come more often than a frame may."""
        if self._is_drawing_soon:
            return
        wait = self._pointer_drawn_at + pause_between_motions(self.environment) - self._loop_time()
        if wait <= 0:
            self._draw_for_pointer()
        else:
            self._is_drawing_soon = True
            asyncio.get_running_loop().call_later(wait, self._draw_for_pointer)

    def set_timer(self, *arguments: Any, **options: Any) -> Timer:
        """Textual's timer that goes off once, also where the system holds it up for longer than its delay.

        Textual passes over those. One of 8 ms follows each change of the terminal's size: after one that was lost, no
        further change was heard.
        """
        timer = super().set_timer(*arguments, **options)
        timer._skip = False
        return timer

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Write an update: only the cells that have changed."""
        super()._display(screen, NarrowUpdate(renderable) if isinstance(renderable, ChopsUpdate) else renderable)

    def say(self, message: str) -> None:
        """Show a message in the last line for some seconds."""
        self._message, self._message_until = message, self.feed.clock() + MESSAGE_SECONDS
        self.draw()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The command palette lists the key table."""
        for action in actions_of("everywhere"):
            if action.in_palette:
                yield SystemCommand(action.label.capitalize(), action.help, getattr(self, f"action_{action.name}"))

    # --- actions: one for each row of the key table -------------------------------------------------------------------

    def action_overview(self) -> None:
        self._show_screen("overview")

    def action_metrics(self) -> None:
        self._show_screen("metrics")

    def action_kernels(self) -> None:
        self._show_screen("kernels")

    def action_samples(self) -> None:
        self._show_screen("samples")

    def action_evaluation(self) -> None:
        self._show_screen("evaluation")

    def action_runs(self) -> None:
        self._show_screen("runs")

    def action_config(self) -> None:
        self._config = tuple(self.feed.config_text().splitlines())
        self._show_screen("config")

    def action_previous_run(self) -> None:
        self._show_run_beside(-1)

    def action_next_run(self) -> None:
        self._show_run_beside(1)

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
        if end is not None and end.status in ("stopped", "interrupted"):
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

    def enter_text(self, title: str, text: str, hears: Callable[[str], None]) -> None:
        """Let the user type a line; `hears` it with each letter."""
        self.push_screen(TextEntry(self, title, text, hears))

    def follow(self, root: Path) -> None:
        """Show another run from now on."""
        self._move_to(root)
        self._show_screen("overview")

    def show_run(self, number: int) -> None:
        """Show another one of the runs that are watched, on the screen that is shown."""
        self._move_to(self.feed.watched[number % len(self.feed.watched)])
        if self._scope() == "config":
            self.action_config()
        self.draw()
        self._wake.set()

    def _show_run_beside(self, by: int) -> None:
        if not self.feed.watched:
            self.say("one run is watched; `trainer watch A B` watches several, 6 shows all of the folder")
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
        """End the dashboard for a reason from outside: `terminated` by a signal, `hung_up` without a terminal."""
        self.exit(how)

    def interrupt_worker(self) -> str:
        """Send the worker the interrupt that a second Ctrl-C asks for; says what was done."""
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
            gc.freeze()  # what was imported stays, and need not be looked through
            gc.enable()
        self.feed.read_preview()
        # beside the frames to come: the first chart would wait for NumPy, for most of a second where cores are busy
        asyncio.get_running_loop().run_in_executor(None, importlib.import_module, "trainer.tui.plot")
        self._drawn_at = 0.0
        if self.feed.watched and self._scope() == "overview":  # a key may have chosen another screen by now
            self.action_runs()
        self.run_worker(self._keep_advancing())

    async def _keep_advancing(self) -> None:
        """Read and draw until the app ends.

        No timer of Textual's: one that the system keeps from starting for longer than its delay never goes off.
        """
        while True:
            self._wake.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self.advance())

    def _is_behind(self) -> bool:
        """Whether there is more to read at once for what is shown."""
        return self.feed.is_behind or (self._looks_beside() and self.feed.siblings.is_behind)

    def _looks_beside(self) -> bool:
        """Whether other runs are shown, too: on their own screen, or in tabs."""
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
        if self._look_after is not None and not 0 <= now - self._looked_after_at < LOOK_AFTER_SECONDS:
            self._looked_after_at = now
            try:
                self._look_after()
            except TrainerError as error:  # a full disk; whoever asked for the dashboard looks once more at its end
                self._look_after = None
                self.say(str(error))

    def _look_for_answer(self) -> None:
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
        """The scope of the screen that is on top, or below a dialogue."""
        screens = [screen for screen in self._screen_stack if isinstance(screen, RunScreen)]
        return screens[-1].scope if screens else "overview"

    def _show_screen(self, name: str) -> None:
        if name != self._scope():
            if len(self.screen_stack) > 1:
                self.pop_screen()
            if name != Overview.scope:
                if name not in self._made:  # made once: what was chosen on it stays
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


def _driver_class() -> type | None:
    """Our driver where there are POSIX terminals; elsewhere, and in a browser, Textual's own."""
    if "TEXTUAL_DRIVER" in os.environ:
        return None
    try:
        from trainer.tui.driver import DashboardDriver
    except ImportError:
        return None
    return DashboardDriver
