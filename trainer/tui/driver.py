"""The terminal driver: draws before it queries the terminal, writes ASCII without UTF-8, ends with its terminal."""

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
    """Textual's driver; its query (synchronized output) and the mouse are deferred until `ask_terminal`.

    A terminal that answers slowly, or that prints unknown queries, then does so below a frame. Sizes come from SIGWINCH
    only: a terminal that reports them in band would also report the mouse in pixels, with an event for each pixel.

    The dashboard ends when its terminal is gone (the window was closed, the connection was lost): Textual would read
    the end of file over and over, and wait forever for its writes. A SIGTERM also ends it and restores the terminal.
    """

    _app: Dashboard
    _is_asked = False

    def __init__(self, app: Dashboard, **options: Any) -> None:
        super().__init__(app, **options)
        self.ascii_only = app.glyphs is ASCII
        self.exit_event = self._end_of_input = _EndOfInput(self.fileno)
        self._file = _Output(sys.__stderr__, self._say_gone)  # type: ignore[assignment, arg-type]

    def start_application_mode(self) -> None:
        """Takes over the terminal."""
        super().start_application_mode()
        if threading.current_thread() is threading.main_thread():
            self._loop.add_signal_handler(signal.SIGHUP, self._app.leave, "hung_up")
            self._loop.add_signal_handler(signal.SIGTERM, self._app.leave, "terminated")
        first = self._app.first_frame
        if first is not None and (before := first.hand_over()) is not None:
            self.attrs_before = before

    def stop_application_mode(self) -> None:
        """Restores the terminal and deletes kitty's pictures on it."""
        if self._app.pictures == "kitty":
            self.write(DELETE_ALL)
        super().stop_application_mode()

    def run_input_thread(self) -> None:
        """Reads keys until the dashboard ends or the terminal is gone."""
        try:
            super().run_input_thread()
        except OSError:  # some systems report a missing terminal this way
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
        """Queries what the terminal supports and enables the mouse; called after the first frame is written."""
        self._is_asked = True
        super()._request_terminal_sync_mode_support()
        self._enable_mouse_support()

    def follow_pointer(self, is_followed: bool) -> None:
        """Requests every motion of the mouse, or only motions with a button held: clicks, drags and the wheel."""
        if self._mouse and self._is_asked:
            self.write("\x1b[?1000h\x1b[?1006h" + ("\x1b[?1003h" if is_followed else "\x1b[?1003l\x1b[?1002h"))
            self.flush()

    def _disable_mouse_support(self) -> None:
        if self._mouse and self._is_asked:
            self.write("\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?1006l")
            self.flush()

    def write(self, data: str) -> None:
        """Writes to the terminal; without UTF-8, ASCII replaces every other character."""
        first = self._app.first_frame
        if data == ENTER and first is not None and first.is_drawn:
            return  # the alternate screen is already on, and some terminals would clear it
        super().write(to_ascii(data) if self.ascii_only else data)


class _EndOfInput(threading.Event):
    """An event that ends Textual's input loop: set on request, or when the terminal is gone.

    The loop's thread and the thread that ends it check at the same time, which a shared poll object does not allow (and
    Textual would ignore that and wait for the loop forever).
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.terminal_is_gone = False
        self._descriptor = descriptor

    def is_set(self) -> bool:
        """Whether the input loop has to end."""
        if not self.terminal_is_gone:
            poll = select.poll()
            poll.register(self._descriptor, 0)  # a hang-up is reported even without a requested event
            self.terminal_is_gone = any(state & (select.POLLHUP | select.POLLERR) for _, state in poll.poll(0))
        return super().is_set() or self.terminal_is_gone


class _Output:
    """The output to the terminal. Once the terminal is gone, one callback reports it and further output is dropped."""

    def __init__(self, file: TextIO, say_gone: Callable[[], None]) -> None:
        self._file, self._say_gone, self._is_gone = file, say_gone, False

    def write(self, text: str) -> None:
        """Writes text."""
        self._unless_gone(lambda: self._file.write(text))

    def flush(self) -> None:
        """Flushes the written text."""
        self._unless_gone(self._file.flush)

    def fileno(self) -> int:
        """The terminal's file descriptor."""
        return self._file.fileno()

    def _unless_gone(self, act: Callable[[], object]) -> None:
        if self._is_gone:
            return
        try:
            act()
        except OSError:
            self._is_gone = True
            self._say_gone()
