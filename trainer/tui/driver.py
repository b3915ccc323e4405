"""The terminal driver: draws before it asks anything, speaks plain ASCII where it must, ends with its terminal."""

from __future__ import annotations

import select
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from textual.drivers.linux_driver import LinuxDriver

from trainer.tui.first_frame import ENTER
from trainer.tui.glyphs import ASCII, to_ascii

if TYPE_CHECKING:
    from trainer.tui.app import Dashboard

DELETE_ALL = "\x1b_Ga=d,d=A,q=2\x1b\\"
"""Deletes all of kitty's pictures on the screen."""


class DashboardDriver(LinuxDriver):
    """Textual's driver, with its question (synchronised output) and the mouse put off until `ask_terminal`.

    A terminal that is slow to answer, or that prints questions which it does not know, then does so below a frame.
    Sizes come by SIGWINCH alone: a terminal that reports them in band would report the mouse in pixels, an event for
    each.

    A terminal that is gone (its window was closed, the connection was lost) ends the dashboard: Textual would read its
    end of file over and over, and wait for ever for what it writes. A SIGTERM ends it, too, which gives the terminal
    back.
    """

    _app: Dashboard
    _is_asked = False

    def __init__(self, app: Dashboard, **options: Any) -> None:
        super().__init__(app, **options)
        self.ascii_only = app.glyphs is ASCII
        self.exit_event = self._end_of_input = _EndOfInput(self.fileno)
        self._file = _Output(sys.__stderr__, self._say_gone)  # type: ignore[assignment, arg-type]

    def start_application_mode(self) -> None:
        """Take the terminal over."""
        super().start_application_mode()
        if threading.current_thread() is threading.main_thread():
            self._loop.add_signal_handler(signal.SIGHUP, self._app.leave, "hung_up")
            self._loop.add_signal_handler(signal.SIGTERM, self._app.leave, "terminated")
        first = self._app.first_frame
        if first is not None and (before := first.hand_over()) is not None:
            self.attrs_before = before

    def stop_application_mode(self) -> None:
        """Give the terminal back, without a picture left on it."""
        if self._app.pictures == "kitty":
            self.write(DELETE_ALL)
        super().stop_application_mode()

    def run_input_thread(self) -> None:
        """Read keys until the dashboard ends, or the terminal."""
        try:
            super().run_input_thread()
        except OSError:  # how some systems say that the terminal is gone
            self._end_of_input.terminal_is_gone = True
        if self._end_of_input.terminal_is_gone:
            self._say_gone()

    def _say_gone(self) -> None:
        self._loop.call_soon_threadsafe(self._app.leave, "hung_up")

    def _request_terminal_sync_mode_support(self) -> None:
        pass  # asked in ask_terminal

    def _query_in_band_window_resize(self) -> None:
        pass  # never asked

    def _enable_mouse_support(self) -> None:
        if self._is_asked:
            self.follow_pointer(False)

    def ask_terminal(self) -> None:
        """Ask what the terminal supports, and for the mouse; called once the first frame is out."""
        self._is_asked = True
        super()._request_terminal_sync_mode_support()
        self._enable_mouse_support()

    def follow_pointer(self, is_followed: bool) -> None:
        """Have every motion of the mouse reported, or only those with a button held: clicks, drags and the wheel."""
        if self._mouse and self._is_asked:
            self.write("\x1b[?1000h\x1b[?1006h" + ("\x1b[?1003h" if is_followed else "\x1b[?1003l\x1b[?1002h"))
            self.flush()

    def _disable_mouse_support(self) -> None:
        if self._mouse and self._is_asked:
            self.write("\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?1006l")
            self.flush()

    def write(self, data: str) -> None:
        """Write to the terminal; without UTF-8 every other character has an ASCII one in its place."""
        first = self._app.first_frame
        if data == ENTER and first is not None and first.is_drawn:
            return  # it is there already, and some terminals would clear it
        super().write(to_ascii(data) if self.ascii_only else data)


class _EndOfInput(threading.Event):
    """Returns whether Textual's input loop has to end: on request, or because the terminal is gone.

    The loop's thread and the one that ends it ask at the same time, which one poll object between them refuses (and
    Textual would pass over that, and wait for the loop for ever).
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.terminal_is_gone = False
        self._descriptor = descriptor

    def is_set(self) -> bool:
        """Whether to end."""
        if not self.terminal_is_gone:
            poll = select.poll()
            poll.register(self._descriptor, 0)  # a hang-up is reported even though nothing is asked for
            self.terminal_is_gone = any(state & (select.POLLHUP | select.POLLERR) for _, state in poll.poll(0))
        return super().is_set() or self.terminal_is_gone


class _Output:
    """The terminal to write to. Once it is gone, one callback reports it and further output is dropped."""

    def __init__(self, file: TextIO, say_gone: Callable[[], None]) -> None:
        self._file, self._say_gone, self._is_gone = file, say_gone, False

    def write(self, text: str) -> None:
        """Write some text."""
        self._unless_gone(lambda: self._file.write(text))

    def flush(self) -> None:
        """See that it is on the screen."""
        self._unless_gone(self._file.flush)

    def fileno(self) -> int:
        """The terminal's descriptor."""
        return self._file.fileno()

    def _unless_gone(self, act: Callable[[], object]) -> None:
        if self._is_gone:
            return
        try:
            act()
        except OSError:
            self._is_gone = True
            self._say_gone()
