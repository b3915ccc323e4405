"""Requests to the learner: handled between steps, answered as events."""

from __future__ import annotations

import itertools
import signal as signals
import time
from collections import deque
from collections.abc import Callable, Sequence

from trainer.learner.ranks import ALONE, Group
from trainer.rundir import EventSink, Request, RequestEvent

TakeRequests = Callable[[], Sequence[Request]]
"""Returns the requests received since the last call."""


class Stopped(Exception):
    """Training ends here: by request, by a signal, or immediately (`abort`)."""

    def __init__(self, status: str, exit_code: int, reason: str, *, at_once: bool = False) -> None:
        super().__init__(reason)
        self.status, self.exit_code, self.reason, self.at_once = status, exit_code, reason, at_once


class Inbox:
    """Keeps requests until the loop handles them."""

    def __init__(
        self, take: TakeRequests, sink: EventSink, *, wait: Callable[[float], None] = time.sleep, group: Group = ALONE
    ) -> None:
        self._take, self._sink, self._wait, self._group = take, sink, wait, group
        self._waiting: dict[str, list[Request]] = {"checkpoint": [], "evaluate": []}
        self._asked: deque[Request] = deque()
        self._numbers = itertools.count(1)
        self._signal = 0
        self._is_paused = False

    def interrupt(self, signal_number: int) -> None:
        """Records a signal. Only sets a number, so signal handlers may call it."""
        self._signal = signal_number

    def ask(self, what: str) -> None:
        """Adds a request from this process; callable from any thread."""
        self._asked.append(Request(f"own-{next(self._numbers)}", what, {}))

    def check(self) -> None:
        """Calls `check_together` if there is one process. With several it does nothing: others may not call it here."""
        if self._group.size == 1:
            self.check_together()

    def check_together(self) -> None:
        """Receives new requests; all processes of a training receive those of rank 0. Blocks while paused.

        Raises:
            Stopped: training has to end.
        """
        self._take_all()
        while self._is_paused:
            self._wait(0.05)
            self._take_all()

    def next(self, what: str) -> Request | None:
        """The oldest waiting `checkpoint` or `evaluate` request; answer it with `done`."""
        return self._waiting[what][0] if self._waiting[what] else None

    def done(self, request: Request) -> None:
        """Reports that a request was executed."""
        self._waiting[request.what].remove(request)
        self._answer(request, "done")

    def close(self) -> None:
        """Refuses waiting requests: the run has ended."""
        for waiting in self._waiting.values():
            for request in waiting:
                self._answer(request, "refused", "the run has ended")
            waiting.clear()

    def _take_all(self) -> None:
        signal, requests = self._group.from_first(self._news() if self._group.is_first else None)
        if signal:
            raise Stopped("interrupted", 128 + signal, f"interrupted by {signals.Signals(signal).name}")
        for request in requests:
            self._answer(request, "received")
            self._accept(request)

    def _news(self) -> tuple[int, list[Request]]:
        """The signal, or requests, since the last call."""
        if self._signal:
            return self._signal, []
        return 0, [*(self._asked.popleft() for _ in range(len(self._asked))), *self._take()]

    def _accept(self, request: Request) -> None:
        if request.what in self._waiting:
            self._waiting[request.what].append(request)
        elif request.what in ("pause", "resume"):
            self._is_paused = request.what == "pause"
            self._answer(request, "done")
        elif request.what in ("stop", "prune", "abort"):
            self._is_paused = False
            self._answer(request, "done")
            if request.what == "abort":
                raise Stopped("interrupted", 1, "aborted by request", at_once=True)
            if request.what == "prune":
                raise Stopped("pruned", 0, "stopped early: other trials of its sweep are better")
            raise Stopped("stopped", 0, "stopped by request")
        else:
            self._answer(request, "refused", f"unknown request {request.what!r}")

    def _answer(self, request: Request, state: str, why: str | None = None) -> None:
        self._sink(RequestEvent(request.id, request.what, state, why))
