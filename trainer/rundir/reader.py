"""Reads `events.jsonl` while it grows: incrementally, in limited time, tolerant of incomplete and unknown lines."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import BinaryIO

from trainer.rundir.attempts import TimeTaken, without_superseded
from trainer.rundir.codec import decode_lines
from trainer.rundir.events import Record

CHUNK_BYTES = 1 << 18
SMALL_PIECE_BYTES = 1 << 14
LINES_TOGETHER = 64
"""Lines decoded between two checks of the clock: a time limit is kept to half a millisecond."""


class EventTail:
    """Follows an event file from its beginning.

    A file that does not exist yet reads as empty. A last line without its newline is left for the next poll. Lines that
    are not JSON objects are skipped and counted in `skipped_lines`.

    Attributes:
        bytes_read: number of bytes of the records returned so far.
        size: the file's size in bytes at the last check.
        at_end: whether every complete line of that size has been returned.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.bytes_read = 0
        self.size = 0
        self.at_end = False
        self.skipped_lines = 0
        self._descriptor = -1
        self._tail = b""  # read from the file, not yet ended by a newline
        self._lines: list[bytes] = []  # complete lines not yet decoded, last one first

    def poll(self, max_seconds: float | None = None, max_bytes: int | None = None) -> list[Record]:
        """The records written since the last poll, within limits of time and bytes.

        Reads at least one line if available, so that repeated polls reach the end.
        """
        deadline = math.inf if max_seconds is None else time.perf_counter() + max_seconds
        last_byte = math.inf if max_bytes is None else self.bytes_read + max_bytes
        records: list[Record] = []
        while self._lines or self._read_chunk():
            if records and (self.bytes_read >= last_byte or time.perf_counter() >= deadline):
                break
            lines = self._take_lines(last_byte)
            decoded = [record for record in decode_lines(lines) if record is not None]
            self.skipped_lines += len(lines) - len(decoded)
            records += decoded
        return self._checked_size(records)

    def close(self) -> None:
        """Closes the file; a later poll reopens it at the same position."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> EventTail:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _take_lines(self, last_byte: float) -> list[bytes]:
        """Takes the next few complete, nonempty lines; none that begins after `last_byte`, except the first."""
        taken: list[bytes] = []
        for _ in range(min(LINES_TOGETHER, len(self._lines))):
            line = self._lines.pop()
            self.bytes_read += len(line) + 1
            if line:
                taken.append(line)
            if self.bytes_read >= last_byte:
                break
        return taken

    def _checked_size(self, records: list[Record]) -> list[Record]:
        if self._descriptor >= 0:
            self.size = os.fstat(self._descriptor).st_size
        self.at_end = not self._lines and self.bytes_read + len(self._tail) >= self.size
        return records

    def _read_chunk(self) -> bool:
        """Reads until a line is complete; False at the end of the file."""
        if self._descriptor < 0:
            try:
                self._descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            except FileNotFoundError:
                return False
            os.lseek(self._descriptor, self.bytes_read + len(self._tail), os.SEEK_SET)
        while chunk := os.read(self._descriptor, CHUNK_BYTES):
            *lines, rest = chunk.split(b"\n")
            if lines:
                lines[0] = self._tail + lines[0]
                self._tail = rest
                lines.reverse()
                self._lines = lines
                return True
            self._tail += rest
        return False


def read_events(path: str | os.PathLike[str]) -> list[Record]:
    """All records of an event file, without those that a resumed attempt replaced."""
    with EventTail(path) as tail:
        return without_superseded(tail.poll())


def sample_events(path: str | os.PathLike[str], *, pieces: int = 64, piece_bytes: int = 1 << 13) -> list[Record]:
    """Records from evenly spaced parts of the file, in order: an overview of a long run at limited cost.

    A file shorter than all parts together is read completely.
    """
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size <= pieces * piece_bytes:
            return read_events(path)
        records = []
        for piece in range(pieces):
            start = (size - piece_bytes) * piece // (pieces - 1)
            file.seek(start)
            lines = file.read(piece_bytes).split(b"\n")
            records += [record for record in decode_lines(lines[1 if start else 0 : -1]) if record is not None]
    return without_superseded(records)


def seconds_taken(path: str | os.PathLike[str]) -> float | None:
    """As `TimeTaken.seconds`, at a cost proportional to the number of attempts instead of the file's length.

    Attempts are consecutive in the file, so that their ends are found by bisection. None without records.
    """
    taken = TimeTaken()
    try:
        with open(path, "rb") as file:
            size, start = file.seek(0, os.SEEK_END), 0
            while (found := _record_from(file, start, size)) is not None:
                first, start = found
                taken.see(first)
                low, high = start, size
                while high - low > SMALL_PIECE_BYTES:
                    middle = (low + high) // 2
                    there = _record_from(file, middle, high)
                    if there is not None and there[0].attempt <= first.attempt:
                        taken.see(there[0])
                        low = there[1]
                    else:
                        high = middle
                start = low
                while (there := _record_from(file, start, size)) is not None and there[0].attempt <= first.attempt:
                    taken.see(there[0])
                    start = there[1]
    except FileNotFoundError:
        return None
    return taken.seconds or None


def _record_from(file: BinaryIO, start: int, before: int) -> tuple[Record, int] | None:
    """The first complete record that begins at or after `start` and before `before`; and its end."""
    file.seek(max(0, start - 1))
    if start:
        file.readline()  # the rest of a line that begins earlier; only its newline if one begins here
    while (begin := file.tell()) < before and (line := file.readline()).endswith(b"\n"):
        for record in decode_lines([line[:-1]]):
            if record is not None:
                return record, begin + len(line)
    return None


def first_records(path: str | os.PathLike[str], *, first_bytes: int = 1 << 14) -> list[Record]:
    """The records at the beginning of the file, in order, independent of its length; empty without a file."""
    try:
        with open(path, "rb") as file:
            lines = file.read(first_bytes).split(b"\n")
    except FileNotFoundError:
        return []
    return [record for record in decode_lines(lines[:-1]) if record is not None]


def last_records(path: str | os.PathLike[str], *, last_bytes: int = 1 << 16) -> list[Record]:
    """The records at the end of the file, in order, independent of its length; empty without a file."""
    try:
        with open(path, "rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - last_bytes)
            file.seek(start)
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return []
    return [record for record in decode_lines(lines[1 if start else 0 : -1]) if record is not None]
