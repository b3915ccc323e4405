"""The worker's watcher: one thread for signals, heartbeats, samples of the machine, and the parent process.

Signals reach the thread through a pipe that the interpreter's C handler writes to, so that they arrive while the main
thread is inside a kernel or a compiler:

    the first    before the learner runs: ends the process immediately
                 afterwards: the learner finishes its step, writes a checkpoint and ends
    a later one  ends the process immediately (one within SAME_WISH_SECONDS is the same signal, received twice)

SIGUSR1 becomes a request for a checkpoint, as by `control/`. By default it ends a process, and schedulers send it to
whole groups. Therefore it is blocked in all threads except this one, and in the processes that they start.

No signal handler raises an exception: inside an import, it would leave the import lock held forever.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from trainer import TrainerError
from trainer.cli.exit_codes import BY_SIGNAL, CHECKPOINT_SIGNAL, FAILURE
from trainer.rundir import (
    EndEvent,
    EventSink,
    LogEvent,
    RunLock,
    RunPaths,
    WarningEvent,
    gone,
    send_request,
    waiting_requests,
)

if TYPE_CHECKING:
    from trainer.cli.system import SystemSampler

SAME_WISH_SECONDS = 0.5
SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_BETWEEN_SAMPLES = 2.0
SECONDS_BEFORE_FIRST_SAMPLE = 1.0
"""Seconds over which the first sample measures processor time; until then, imports must not delay signals."""
SECONDS_WITHOUT_PARENT = 10.0
"""Seconds that an attached worker has to finish its step and save after its parent has ended."""

_PR_SET_PDEATHSIG = 1  # see prctl(2)


class Watcher:
    """Watches one attempt, from entering the context to leaving it.

    Args:
        parent: the process whose end also ends this one, if any.
        is_guest: the process belongs to other code (a notebook): its signals are not handled, and it is never ended.
    """

    def __init__(
        self, paths: RunPaths, sink: EventSink, lock: RunLock, *, parent: int | None = None, is_guest: bool = False
    ) -> None:
        self._paths, self._sink, self._lock, self._parent, self._is_guest = paths, sink, lock, parent, is_guest
        self._first: tuple[int, float] | None = None
        self._deadline: tuple[float, int, str] | None = None
        self._is_abort_requested = False
        self._interrupt: Callable[[int], None] | None = None
        self._over = False
        self._sampler: SystemSampler | None = None
        self._next_sample, self._holds_lock = 0.0, True
        self._pipe = os.pipe()
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)
        self._last_wish_for_checkpoint = -SAME_WISH_SECONDS
        self._before: dict[int, Any] = {}
        self._mask_before: set[int] | None = None
        self._wakeup_before = -1

    def hand_signals_to(self, interrupt: Callable[[int], None]) -> None:
        """From now on, signals (SIGINT or SIGTERM) go to the learner. The function is called in the watcher's
        thread.
        """
        self._interrupt = interrupt

    def __enter__(self) -> Watcher:
        if threading.current_thread() is threading.main_thread() and not self._is_guest:
            for end in self._pipe:
                os.set_blocking(end, False)
            self._wakeup_before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
            self._before = {number: signal.signal(number, _note) for number in BY_SIGNAL}
            if CHECKPOINT_SIGNAL is not None:
                self._mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, (CHECKPOINT_SIGNAL,))
                self._before[CHECKPOINT_SIGNAL] = signal.signal(CHECKPOINT_SIGNAL, _note)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over = True
        if self._before:
            signal.set_wakeup_fd(self._wakeup_before)
            for number, handler in self._before.items():
                signal.signal(number, handler)
        if self._mask_before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask_before)
        os.write(self._pipe[1], b"\0")
        self._thread.join()
        for end in self._pipe:
            os.close(end)

    def _watch(self) -> None:
        if self._mask_before is not None and CHECKPOINT_SIGNAL is not None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (CHECKPOINT_SIGNAL,))
        self._next_sample = time.monotonic() + SECONDS_BETWEEN_SAMPLES
        problem = ""
        while not self._over:
            try:
                self._look()
            except (TrainerError, OSError) as error:  # a full disk: signals must still be handled
                if str(error) != problem:
                    problem = str(error)
                    print(f"the watcher of the run failed: {error}", file=sys.stderr, flush=True)

    def _look(self) -> None:
        """Waits briefly, then handles pending work."""
        ready, _, _ = select.select([self._pipe[0]], [], [], SECONDS_BETWEEN_LOOKS)
        if ready:
            for number in os.read(self._pipe[0], 256):
                if number in BY_SIGNAL:
                    self._take_signal(number)
                elif number == CHECKPOINT_SIGNAL:
                    self._ask_for_checkpoint()
        self._look_after_parent()
        if self._deadline is not None and time.monotonic() > self._deadline[0]:
            self.abort(*self._deadline[1:])
        self._look_for_abort()
        if self._sampler is None and time.monotonic() >= self._next_sample - SECONDS_BEFORE_FIRST_SAMPLE:
            self._sampler = _sampler()
        if self._sampler is not None and time.monotonic() >= self._next_sample and not self._over:
            self._next_sample += SECONDS_BETWEEN_SAMPLES
            self._sink(self._sampler.sample())
            if self._holds_lock and not self._lock.heartbeat():
                self._holds_lock = False
                self._sink(WarningEvent(self._why_unlocked(), where=str(self._paths.lock)))

    def _why_unlocked(self) -> str:
        if gone(self._paths.root):
            return "the run's directory was deleted or moved: nothing more is saved"
        return "another process took run.lock" if self._paths.lock.exists() else "run.lock was deleted"

    def _take_signal(self, number: int) -> None:
        now, name = time.monotonic(), signal.Signals(number).name
        if self._first is None:
            treated_as = signal.SIGINT if number == signal.SIGINT else signal.SIGTERM  # a hang-up is handled as SIGTERM
            self._first = (treated_as, now)
            if self._interrupt is not None:
                self._interrupt(treated_as)
                self._sink(
                    LogEvent(f"{name}: finishing the step, saving and stopping; a second {name} ends immediately")
                )
            else:
                self.abort(BY_SIGNAL[number], f"{name} before training began")
        elif now - self._first[1] > SAME_WISH_SECONDS:
            self.abort(BY_SIGNAL[number], f"a second signal ({name})")

    def _ask_for_checkpoint(self) -> None:
        """Requests a checkpoint. The learner reads requests between steps; an earlier one waits for the first step."""
        now = time.monotonic()
        if now - self._last_wish_for_checkpoint > SAME_WISH_SECONDS:
            self._last_wish_for_checkpoint = now
            send_request(self._paths, "checkpoint")

    def _look_after_parent(self) -> None:
        if self._parent is None or os.getppid() == self._parent:
            return
        self._parent = None
        if self._first is None:
            self._take_signal(signal.SIGTERM)
        reason = "the process that started this run is gone"
        self._deadline = time.monotonic() + SECONDS_WITHOUT_PARENT, BY_SIGNAL[signal.SIGTERM], reason

    def _look_for_abort(self) -> None:
        """The learner handles requests itself; an abort that it has not handled by the next check is executed here."""
        asked = not self._is_guest and any(request.what == "abort" for request in waiting_requests(self._paths))
        if asked and self._is_abort_requested:
            self.abort(FAILURE, "aborted by request")
        self._is_abort_requested = asked

    def abort(self, code: int, reason: str, status: str = "interrupted") -> None:
        """Ends the process now, whatever its threads are doing; callable in any thread."""
        try:
            self._sink(EndEvent(status, code, reason=reason))
            self._lock.release()
        finally:
            os._exit(code)


def _sampler() -> SystemSampler:
    """Creates a sampler whose first interval starts now."""
    from trainer.cli.system import SystemSampler

    return SystemSampler()


def _note(number: int, frame: FrameType | None) -> None:
    """A signal handler that does nothing: the interpreter has already notified the watcher."""


def limit_memory(gigabytes: float) -> None:
    """Limits the private memory of this process and its children (Linux); larger allocations fail."""
    import resource

    most = int(gigabytes * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def die_with_parent(parent: int, by: signal.Signals = signal.SIGTERM) -> None:
    """Asks the system for a signal when the parent ends (Linux); elsewhere the watcher notices within a second."""
    if sys.platform == "linux" and Path("/proc/self").exists():
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(by), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os._exit(BY_SIGNAL[signal.SIGTERM])
