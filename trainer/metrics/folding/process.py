"""The folding process from the loop's side: sends records without loss, receives values."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.configs.custom_class import own_packages
from trainer.metrics.folding.fold import NotANumber, Slot
from trainer.metrics.folding.form import Form, aligned
from trainer.metrics.folding.ring import Ring, Source, shared_memory

RING_BYTES = 16 << 20
"""Size of the ring. Memory is allocated on first write; records larger than a quarter of it use the connection."""
MOST_RECORDS = 128
"""Maximum number of unread records: their orders fit into the connection, so that sending never blocks."""
LOOK_SECONDS = 0.0002
"""Seconds between checks for free space in the ring."""
HEAR_EVERY = 50
"""Number of these checks between two checks that the process is alive, which take 30 µs."""

TOGETHER, SEND_SECONDS = 32, 0.1
"""Records are announced in groups of this size or after this time: each message costs the loop 40 µs and wakes a
    process that competes for the loop's processors.
"""


@dataclass(frozen=True)
class _Known:
    """A form known to the process: its number, and the bytes of a record and of its runs.

    The form is referenced, so that no other object can have its id.
    """

    number: int
    size: int
    runs: tuple[tuple[str, int], ...]
    form: Form


class MetricFailure(Exception):
    """A metric failed in the folding process; the message is the traceback from there."""


class Answer:
    """A requested answer."""

    def __init__(self, folder: FoldingProcess, token: int) -> None:
        self._folder, self._token = folder, token

    @property
    def is_there(self) -> bool:
        """Whether `result` would return immediately."""
        return self._folder.has_answered(self._token)

    def result(self) -> Any:
        """Waits for the answer and returns it.

        Raises:
            Exception: an exception of a metric, or the death of the process.
        """
        return self._folder.answer(self._token)


class FoldingProcess:
    """A folding process; starts with the first stream, and ends with `close` or with this process.

    Args:
        ring_bytes: size of the shared memory for unread records; `put` waits while it is full.
        niceness: reduced priority of the process, 0 to 19 (see `os.nice`).
    """

    def __init__(self, *, ring_bytes: int = RING_BYTES, niceness: int = 0) -> None:
        self._ring_bytes, self._niceness = ring_bytes, niceness
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._ring: Ring | None = None
        self._forms: dict[tuple[str, int], _Known] = {}
        self._unsent: list[tuple[int, int, int, Any]] = []
        self._send_by = 0.0
        self._answers: dict[int, Any] = {}
        self._tokens = 0
        self._asked: set[int] = set()
        self._records = 0
        self._error: BaseException | None = None
        self.waited = 0.0
        """Seconds for which `put` has waited for free space."""

    def open(self, stream: str, slots: Mapping[str, Slot]) -> None:
        """Sets the metrics to fold in a stream; resets it."""
        if self._process is None:
            self._start()
        self._send("packages", own_packages())
        self._send("stream", stream, dict(slots))

    def put(self, stream: str, form: Form, sources: Mapping[str, Source], at: Any = None) -> None:
        """Sends one batch's parts; `at` names the batch in errors.

        Args:
            form: the layout of the parts.
            sources: functions that write the bytes, by element type.

        Raises:
            Exception: an exception of a metric, or the death of the process.
        """
        assert self._ring is not None, "no stream is open"
        if self._ring.has_failed:
            self._raise()
        known = self._forms.get((stream, id(form)))  # the form's own hash would cost each step 5 µs
        if known is None:
            number = len(self._forms)
            known = self._forms[stream, id(form)] = _Known(number, form.size(), tuple(form.runs().items()), form)
            self._send("form", known.number, stream, form)
        writers = [(sources[dtype], length) for dtype, length in known.runs]
        if known.size > self._ring.capacity // 4:
            self._put_large(known, writers, at)
            return
        place = self._ring.write(writers, known.size) if self.lag < MOST_RECORDS else None
        if place is None:
            place = self._when_there_is_room(writers, known.size)
        self._records += 1
        self._unsent.append((known.number, *place, at))
        if len(self._unsent) >= TOGETHER or time.monotonic() > self._send_by:
            self._send_records()

    @property
    def is_open(self) -> bool:
        """Whether the process has started: a stream has been opened."""
        return self._process is not None

    @property
    def lag(self) -> int:
        """Number of unread records."""
        return 0 if self._ring is None else self._records - self._ring.records_read

    def values(self, stream: str) -> Answer:
        """Requests (values, reports) of everything sent so far."""
        return self._ask("values", stream)

    def states(self, stream: str) -> Answer:
        """Requests the states, arrays by slot and part."""
        return self._ask("states", stream)

    def restore(self, stream: str, states: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Restores states."""
        self._send("restore", stream, {slot: dict(state) for slot, state in states.items()})

    def reset(self, stream: str) -> None:
        """Resets a stream."""
        self._send("reset", stream)

    def close(self) -> None:
        """Ends the process immediately."""
        if self._process is not None:
            assert self._connection is not None
            self._connection.close()
            self._process.kill()
            self._process.wait()
            self._process = None

    # --- answers ------------------------------------------------------------------------------------------------------

    def has_answered(self, token: int) -> bool:
        """Whether the answer to a question has arrived, or an error instead."""
        self._receive(0)
        return token in self._answers or self._error is not None

    def answer(self, token: int) -> Any:
        """Waits for the answer to a question."""
        while token not in self._answers:
            if self._error is not None:
                raise self._error
            self._receive(None)
        return self._answers.pop(token)

    def _ask(self, what: str, stream: str) -> Answer:
        self._tokens += 1
        self._asked.add(self._tokens)
        self._send(what, self._tokens, stream)
        return Answer(self, self._tokens)

    def _receive(self, timeout: float | None) -> None:
        """Receives messages of the process; waits up to `timeout` seconds for one, or without limit if it is None."""
        assert self._connection is not None
        try:
            while self._connection.poll(timeout):
                what, *content = self._connection.recv()
                timeout = 0
                if what == "answer":
                    self._answers[content[0]] = content[1]
                    self._asked.discard(content[0])
                else:
                    self._error = self._error_from(*content)
                    self._asked.clear()
        except (EOFError, OSError):
            self._error = self._error or self._death()
            self._asked.clear()

    def _raise(self) -> None:
        while self._error is None:
            self._receive(None)
        raise self._error

    def _error_from(self, blob: bytes | None, text: str, at: Any) -> BaseException:
        cause = MetricFailure(f"in the process that folds metrics:\n{text}")
        error: BaseException = cause if blob is None else pickle.loads(blob)
        if blob is not None:
            error.__cause__ = cause
        if isinstance(error, NotANumber):
            error.at = at
        return error

    def _death(self) -> TrainerError:
        assert self._process is not None
        status = self._process.wait()
        how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
        return TrainerError(
            "the process that folds metrics died",
            found=how,
            hint="The machine may have run out of memory: metrics that keep rows (roc_auc without `bins`, say) keep "
            "those of a whole split. The run can be resumed from its last checkpoint.",
        )

    # --- sending ------------------------------------------------------------------------------------------------------

    def _send(self, *order: Any) -> None:
        assert self._connection is not None, "no stream is open"
        if self._unsent:
            self._send_records()
        try:
            self._connection.send_bytes(pickle.dumps(order, protocol=pickle.HIGHEST_PROTOCOL))
        except OSError:
            self._raise()

    def _send_records(self) -> None:
        records, self._unsent = self._unsent, []
        self._send_by = time.monotonic() + SEND_SECONDS
        if records:
            self._send("records", records)

    def _put_large(self, known: _Known, writers: list[tuple[Source, int]], at: Any) -> None:
        record = bytearray(known.size)
        view, start = memoryview(record), 0
        for source, length in writers:
            source(view[start : start + length])
            start += aligned(length)
        self._send_records()
        while self._asked:  # otherwise both ends would wait for the other to read a large message
            self._receive(None)
        self._send("record", known.number, bytes(record), at)

    def _when_there_is_room(self, writers: list[tuple[Source, int]], size: int) -> tuple[int, int]:
        assert self._ring is not None
        self._send_records()
        started = time.perf_counter()
        place, looks = None, 0
        while place is None:
            if self._ring.has_failed or looks % HEAR_EVERY == 0:
                self._receive(0)
            if self._error is not None:
                raise self._error
            time.sleep(LOOK_SECONDS)
            looks += 1
            place = self._ring.write(writers, size) if self.lag < MOST_RECORDS else None
        self.waited += time.perf_counter() - started
        return place

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        memory = shared_memory(self._ring_bytes)
        descriptors = (theirs.fileno(), memory)
        words = map(str, (*descriptors, self._niceness))
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "trainer.metrics.folding.worker", *words],
            stdin=subprocess.DEVNULL,
            pass_fds=descriptors,
            env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        theirs.close()
        self._connection = Connection(ours.detach())
        self._ring = Ring(memory)
        with contextlib.suppress(OSError):
            os.close(memory)
