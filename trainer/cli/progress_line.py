"""One line on the terminal that says what is done and how far."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

SECONDS_BETWEEN = 0.1


class ProgressLine:
    """Rewrites one line of standard error; nothing where that is no terminal."""

    def __init__(self) -> None:
        self.is_shown = sys.stderr.isatty()
        self._last = 0.0

    def of(self, what: str) -> Callable[[int, int], None]:
        """A callback (done, total); a total of 0 is not known."""

        def show(done: int, total: int) -> None:
            now = time.monotonic()
            if self.is_shown and (now - self._last >= SECONDS_BETWEEN or done == total):
                self._last = now
                self.note(f"{what}: {done} of {total}" if total else f"{what}: {done}")

        return show

    def note(self, text: str) -> None:
        """Show this in place of the line."""
        if self.is_shown:
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        if self.is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
