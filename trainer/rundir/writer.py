"""Appending events to `events.jsonl`: one `write` a line, so that a killed process leaves at most one torn line."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

from trainer import TrainerError
from trainer.rundir.codec import encode
from trainer.rundir.events import EndEvent, Event


class EventWriter:
    """Appends events; callable, so that it serves as an `EventSink`. Safe to use from several threads.

    Several processes may append to one file (the command that starts a run, and its worker): each line is one
    `write` to a file opened for appending.

    Args:
        path: `events.jsonl` of a run directory; created when absent. A torn last line is closed first.
        attempt: which attempt of the run writes (1 for the first).
        process_start: when this attempt's process started, in seconds since 1970.

    Raises:
        TrainerError: the file can't be opened or written (read-only directory, full disk).
    """

    def __init__(self, path: str | os.PathLike[str], *, attempt: int, process_start: float) -> None:
        self.path = Path(path)
        self.attempt = attempt
        self._offset = time.time() - process_start - time.monotonic()
        self._lock = threading.Lock()
        self._ended = False
        try:
            self._descriptor = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o644
            )
        except OSError as error:
            raise write_error(self.path, error) from error
        self._torn = _ends_torn(self._descriptor)

    def write(self, event: Event) -> None:
        """Append one event. An `end` is the last word: what other threads still say after it is dropped.

        Raises:
            TrainerError: the line could not be written.
        """
        with self._lock:
            if self._ended:
                return
            line = encode(event, time=time.time(), since_start=time.monotonic() + self._offset, attempt=self.attempt)
            if self._torn:
                line = b"\n" + line
            try:
                written = os.write(self._descriptor, line)
                while written < len(line):
                    self._torn = True
                    written += os.write(self._descriptor, line[written:])
            except OSError as error:
                raise write_error(self.path, error) from error
            self._torn = False
            self._ended = isinstance(event, EndEvent)

    __call__ = write

    def close(self) -> None:
        """Close the file; writing afterwards is an error."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _ends_torn(descriptor: int) -> bool:
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if size <= 0:
        return False
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) != b"\n"


_HINTS = {
    errno.ENOSPC: "The disk is full: free some space, or put the run elsewhere with --run-dir.",
    errno.EDQUOT: "The disk quota is used up: free some space, or put the run elsewhere with --run-dir.",
    errno.EFBIG: "The file reached the largest size allowed here (see `ulimit -f`).",
    errno.EROFS: "The file system is read-only: put the run elsewhere with --run-dir.",
    errno.EACCES: "No permission to write there: put the run elsewhere with --run-dir.",
}


def write_error(path: str | os.PathLike[str], error: OSError) -> TrainerError:
    """The user's words for a file of a run that can't be written."""
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return TrainerError(f"can't write: {reason}", where=os.fspath(path), hint=_HINTS.get(error.errno or 0))
