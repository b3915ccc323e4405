"""The first frame, drawn before Textual is imported: the import takes 200 ms of processor time, the frame 20 ms.

    with FirstFrame(source, environment) as first:  the overview is on the terminal
        wait for a worker, calling first.refresh()  where the run has no directory yet; clocks go on, Ctrl-C interrupts
        first.follow(feed)                          what is typed waits
        first.show_long_run()
        import Textual, calling first.refresh()
        run the app(first)                          its driver calls first.hand_over(): the terminal is Textual's

The app draws the same frame first, so that the change is invisible.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import termios
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

from trainer.tui.ansi import color_system_of, place
from trainer.tui.feed import Feed
from trainer.tui.frame import frame_of
from trainer.tui.glyphs import ASCII, choose_glyphs, to_ascii
from trainer.tui.overview import draw_overview
from trainer.tui.pace import FIRST_READ_SECONDS
from trainer.tui.palette import choose_palette
from trainer.tui.pending_run import PendingRun
from trainer.tui.text import Line, printable

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
"""Escape sequences that enter and leave the alternate screen."""

REFRESH_SECONDS = 0.2
PATIENCE_SECONDS = 0.1
"""Seconds that the frame waits for the first phase of a run that has just created its directory."""

_SIGNALS = {signal.SIGTERM: "terminated", signal.SIGHUP: "hung_up"}


class LeftEarly(BaseException):  # not an Exception: libraries catch those while they are imported
    """A signal arrived before Textual could handle it; the argument is the result of the dashboard."""


class FirstFrame:
    """The overview of a run on the terminal until a driver takes over, or the context ends.

    Args:
        source: the run, read again for each frame, or a pending run without a directory yet.
        environment: the terminal's environment.
        message: the first message of the last line.
        patience: seconds that the frame waits for a run without any phase yet.

    Attributes:
        has_charts: whether charts are drawn, which imports NumPy.
    """

    has_charts = False

    def __init__(
        self,
        source: Feed | PendingRun,
        environment: Mapping[str, str],
        message: str = "",
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._source, self._message, self._patience = source, message, patience
        self._glyphs = choose_glyphs(environment)
        self._colors = color_system_of(environment)
        self._palette = choose_palette(None if self._colors == "none" else self._colors)
        self._stands = False
        self._drawn: set[tuple[int, int, Line]] = set()
        self._begun = self._drawn_at = 0.0
        self._attributes: list[Any] | None = None
        self._left: LeftEarly | None = None

    def __enter__(self) -> FirstFrame:
        if is_possible():
            for number in _SIGNALS:
                signal.signal(number, self._leave)
            self._stands, self._begun = True, time.monotonic()
            try:
                self._keep_input(interrupts=isinstance(self._source, PendingRun))
                self.refresh()
            except BaseException:  # also a signal: Python does not call `__exit__` if `__enter__` raises
                self.__exit__()
                raise
        return self

    def say(self, output: bytes) -> None:
        """Shows the last line of a process's output so far as the message."""
        self._message = printable(output.decode("utf-8", "replace").strip().rpartition("\n")[2])

    def follow(self, feed: Feed, message: str = "") -> None:
        """Switches to the run itself, once its directory exists; from then on Ctrl-C is a key that Textual reads."""
        if isinstance(self._source, PendingRun):
            feed.continue_from(self._source)
        self._source, self._message, self._patience = feed, message, PATIENCE_SECONDS
        if self._stands:
            self._begun, self._drawn_at = time.monotonic(), 0.0
            self._keep_input(interrupts=False)
            self.refresh()

    def __exit__(self, *exception: object) -> None:
        if self._stands:
            self._stands = False
            if self._drawn:
                self._write(f"{LEAVE}\x1b[?25h")
            if self._attributes is not None:
                with suppress(termios.error):
                    termios.tcsetattr(_input(), termios.TCSANOW, self._attributes)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)

    @property
    def is_drawn(self) -> bool:
        """Whether the terminal is on its alternate screen."""
        return bool(self._drawn)

    def refresh(self) -> None:
        """Draws the changed lines, at most once in REFRESH_SECONDS.

        A worker that has just created its directory reports a phase immediately: the frame waits a little for it.

        Raises:
            LeftEarly: a signal has arrived, and Python ignored the exception of its handler.
        """
        if self._left is not None:
            raise self._left
        now = time.monotonic()
        if not self._stands or (self._drawn and now - self._drawn_at < REFRESH_SECONDS):
            return
        self._source.poll(FIRST_READ_SECONDS)
        view = self._source.view
        has_started = view.end is not None or any(phase.is_active for phase in view.phases.values())
        if (not has_started or isinstance(self._source, PendingRun)) and now - self._begun < self._patience:
            return
        self._drawn_at = now
        frame = frame_of(
            self._source, glyphs=self._glyphs, message=self._message, pane="phases", is_first=not self.has_charts,
            has_color=self._colors != "none",
        )  # fmt: skip
        lines = draw_overview(frame, *shutil.get_terminal_size())
        changed = [line for line in lines if line not in self._drawn]
        head = "" if self._drawn else f"{ENTER}\x1b[?25l\x1b[H\x1b[2J"
        text = head + place(changed, self._palette, self._colors, on_empty=not self._drawn)
        self._drawn = set(lines)  # set before the write: after a signal in between, `__exit__` must still leave
        self._write(text)

    def show_long_run(self) -> None:
        """Draws charts from sampled records of a run that takes seconds to read: the app has its charts much later."""
        if self._stands and self._source.read_preview():
            importlib.import_module("trainer.tui.plot")
            self.has_charts, self._drawn_at = True, 0.0
            self.refresh()

    def hand_over(self) -> list[Any] | None:
        """Leaves the terminal to a driver as it is; the first call returns the termios attributes to restore it."""
        attributes, self._attributes = self._attributes, None
        self._stands, self._drawn = False, set()
        return attributes

    def _leave(self, number: int, frame: FrameType | None) -> NoReturn:
        """Handles a signal. Python ignores exceptions in callbacks of weak references, which each import has, so the
        exception is kept: `refresh` raises it again.
        """
        self._left = LeftEarly(_SIGNALS[signal.Signals(number)])
        raise self._left

    def _keep_input(self, *, interrupts: bool) -> None:
        """Disables echo and keeps typed keys for Textual, which reads them later; also Ctrl-C unless it interrupts."""
        with suppress(termios.error):
            raw = termios.tcgetattr(_input())
            if self._attributes is None:
                self._attributes = termios.tcgetattr(_input())
            raw[0] &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)
            raw[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | (0 if interrupts else termios.ISIG))
            termios.tcsetattr(_input(), termios.TCSANOW, raw)

    def _write(self, text: str) -> None:
        output = sys.__stderr__  # where Textual writes
        assert output is not None
        with suppress(OSError):  # the terminal is gone: the driver detects it
            output.write(to_ascii(text) if self._glyphs is ASCII else text)
            output.flush()


def is_possible() -> bool:
    """Whether this process owns a terminal: not in a browser, and only on the main thread."""
    if "TEXTUAL_DRIVER" in os.environ or threading.current_thread() is not threading.main_thread():
        return False
    return sys.__stdin__ is not None and sys.__stdin__.isatty() and sys.__stderr__ is not None


def _input() -> int:
    assert sys.__stdin__ is not None
    return sys.__stdin__.fileno()
