"""Appends events to `events.jsonl`, one `write` per line: a killed process leaves at most one incomplete line."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from trainer import TrainerError
from trainer.rundir.codec import encode
from trainer.rundir.events import EndEvent, Event, WarningEvent
from trainer.rundir.files import write_error

MOST_HELD = 1 << 26
"""Maximum bytes of lines kept in memory while the disk is full."""


def complain(text: str) -> None:
    """Writes the message to standard error."""
    print(f"warning: {text}", file=sys.stderr, flush=True)


class EventWriter:
    """Appends events; callable, so that it serves as an `EventSink`. Safe to use from several threads.

    Several processes may append to one file (the command that starts a run, and its worker): each line is one
    `write` to a file opened for appending.

    If the disk becomes full or read-only after the first event, the run continues: `complain` receives one message, and
    events are held in memory and written in order as soon as possible.

    Args:
        path: `events.jsonl` of a run directory; created if missing. An incomplete last line is closed first.
        attempt: the number of the attempt, from 1.
        process_start: when this attempt's process started, in seconds since 1970.
        complain: receives a message when events start being held.

    Raises:
        TrainerError: the file can't be opened (read-only directory, full disk).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        attempt: int,
        process_start: float,
        complain: Callable[[str], None] = complain,
    ) -> None:
        self.path = Path(path)
        self.attempt = attempt
        self._complain = complain
        self._offset = time.time() - process_start - time.monotonic()
        self._lock = threading.Lock()
        self._has_written = self._ended = False
        self._held: deque[bytes] = deque()
        self._held_bytes, self._held_since = 0, 0.0
        try:
            self._descriptor = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o644
            )
        except OSError as error:
            raise write_error(self.path, error) from error
        self._torn = _ends_torn(self._descriptor)

    def write(self, event: Event) -> None:
        """Appends one event. An `end` is final: later events of other threads are dropped.

        Raises:
            TrainerError: the line could not be written, and is the first one, an `end`, or exceeds the memory for held
                events.
        """
        with self._lock:
            if self._ended:
                return
            line = self._line(event)
            try:
                if self._held:
                    self._write_held()
                self._append(line)
            except OSError as error:
                if self._descriptor < 0 or not self._has_written:
                    raise write_error(self.path, error) from error
                self._hold(line, event, error)
            else:
                self._has_written = True
                self._ended = isinstance(event, EndEvent)

    __call__ = write

    def close(self) -> None:
        """Closes the file; writing afterwards is an error."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _line(self, event: Event) -> bytes:
        return encode(event, time=time.time(), since_start=time.monotonic() + self._offset, attempt=self.attempt)

    def _append(self, line: bytes) -> None:
        rest = b"\n" + line if self._torn else line
        while rest:
            written = os.write(self._descriptor, rest)
            rest = rest[written:]
            self._torn = bool(rest)

    def _hold(self, line: bytes, event: Event, error: OSError) -> None:
        """Holds a line for later."""
        refused = write_error(self.path, error)
        is_first = not self._held
        if isinstance(event, EndEvent) or self._held_bytes + len(line) > MOST_HELD:
            waiting = f"{len(self._held)} events that are held and were not written" if self._held else None
            raise TrainerError(refused.message, where=refused.where, found=waiting, hint=refused.hint) from error
        if is_first:
            self._held_since = time.monotonic()
        self._held.append(line)
        self._held_bytes += len(line)
        if is_first:
            self._complain(f"{refused}\n  The run continues; its events are held in memory until they can be written.")

    def _write_held(self) -> None:
        """Writes held events, and a message about them."""
        count = len(self._held)
        while self._held:
            self._append(self._held[0])
            self._held_bytes -= len(self._held.popleft())
        seconds = time.monotonic() - self._held_since
        message = f"This file could not be written for {seconds:.0f} s; {count} events were held in memory meanwhile."
        self._append(self._line(WarningEvent(message, where=str(self.path))))


def _ends_torn(descriptor: int) -> bool:
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if size <= 0:
        return False
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) != b"\n"
