"""Forwards the signals of a command to the worker it started."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from trainer.cli.exit_codes import CHECKPOINT_SIGNAL

FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")


@contextmanager
def blocked_in_children() -> Iterator[None]:
    """Processes started inside this context begin with the checkpoint signal blocked, until a thread waits for it."""
    if CHECKPOINT_SIGNAL is None:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (CHECKPOINT_SIGNAL,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def forwarded_signals() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Inside this context, signals go to the process given to the yielded function; earlier signals are kept for it.

    A terminal sends Ctrl-C to the whole process group, so the worker may receive it twice; it treats two signals in
    quick succession as one.
    """
    target: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        if target:
            target[0].send_signal(number)
        else:
            early.append(number)

    def forward_to(process: subprocess.Popen[bytes]) -> None:
        target.append(process)
        for number in early:
            process.send_signal(number)

    numbers = [getattr(signal, name) for name in FORWARDED if hasattr(signal, name)]
    before = {number: signal.signal(number, forward) for number in numbers}
    try:
        yield forward_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
