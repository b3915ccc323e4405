"""Requests to the learner: taken between steps, answered as events."""

from __future__ import annotations

import itertools
import signal as signals
import time
from collections import deque
from collections.abc import Callable, Sequence

from trainer.rundir import EventSink, Request, RequestEvent

TakeRequests = Callable[[], Sequence[Request]]
"""Hands over the requests that have come in since the last call."""


class Stopped(Exception):
    """Training is to end here: by request, by a signal, or at once (`abort`)."""

    def __init__(self, status: str, exit_code: int, reason: str, *, at_once: bool = False) -> None:
        super().__init__(reason)
        self.status, self.exit_code, self.reason, self.at_once = status, exit_code, reason, at_once


class Inbox:
    """Keeps what was asked for until the loop gets to it."""

    def __init__(self, take: TakeRequests, sink: EventSink, *, wait: Callable[[float], None] = time.sleep) -> None:
        self._take, self._sink, self._wait = take, sink, wait
        self._waiting: dict[str, list[Request]] = {"checkpoint": [], "evaluate": []}
        self._asked: deque[Request] = deque()
        self._numbers = itertools.count(1)
        self._signal = 0
        self._is_paused = False

    def interrupt(self, signal_number: int) -> None:
        """Note a signal; only sets a number, so that a signal handler may call it."""
        self._signal = signal_number

    def ask(self, what: str) -> None:
        """Put in a request from within the process; any thread may."""
        self._asked.append(Request(f"own-{next(self._numbers)}", what, {}))

    def check(self) -> None:
        """Take what has come in; sits here while paused.

        Raises:
            Stopped: training is to end.
        """
        self._take_all()
        while self._is_paused:
            self._wait(0.05)
            self._take_all()

    def next(self, what: str) -> Request | None:
        """The oldest `checkpoint` or `evaluate` request that waits; answer it by `done`."""
        return self._waiting[what][0] if self._waiting[what] else None

    def done(self, request: Request) -> None:
        """Tell that a request was carried out."""
        self._waiting[request.what].remove(request)
        self._answer(request, "done")

    def close(self) -> None:
        """Refuse what still waits: the run is over."""
        for waiting in self._waiting.values():
            for request in waiting:
                self._answer(request, "refused", "the run has ended")
            waiting.clear()

    def _take_all(self) -> None:
        if self._signal:
            name = signals.Signals(self._signal).name
            raise Stopped("interrupted", 128 + self._signal, f"interrupted by {name}")
        own = [self._asked.popleft() for _ in range(len(self._asked))]
        for request in (*own, *self._take()):
            self._answer(request, "received")
            self._accept(request)

    def _accept(self, request: Request) -> None:
        if request.what in self._waiting:
            self._waiting[request.what].append(request)
        elif request.what in ("pause", "resume"):
            self._is_paused = request.what == "pause"
            self._answer(request, "done")
        elif request.what in ("stop", "abort"):
            self._is_paused = False
            self._answer(request, "done")
            if request.what == "abort":
                raise Stopped("interrupted", 1, "aborted by request", at_once=True)
            raise Stopped("stopped", 0, "stopped by request")
        else:
            self._answer(request, "refused", f"unknown request {request.what!r}")

    def _answer(self, request: Request, state: str, why: str | None = None) -> None:
        self._sink(RequestEvent(request.id, request.what, state, why))
