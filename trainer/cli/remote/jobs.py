"""The worker on the agent's side: a separate process, or one that Slurm or Ray starts. It outlives the agent."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from trainer.cli.attempt import Attempt
from trainer.cli.ending import settle
from trainer.cli.executors.local import LocalJob
from trainer.cli.executors.orders import Orders
from trainer.cli.executors.pilots import LastingLauncher
from trainer.cli.exit_codes import FAILURE
from trainer.cli.order import Order
from trainer.cli.starting import Worker
from trainer.rundir import RunPaths, host_name, process_is_alive, write_text
from trainer.rundir.processes import process_started

WAITING, RUNNING, OVER = "waiting", "running", "over"
SECONDS_BETWEEN_CHECKS = 2.0
"""Seconds between two queries to a scheduler."""
ENDED_ALONE = "the process that trained ended without a message: its machine was restarted, or memory ran out"


class FarJob(Protocol):
    """The run of one order.

    Attributes:
        mistake: why the run could not be started; empty if it was.
    """

    mistake: str

    def has_started(self) -> bool:
        """Whether the run was started, by this agent or by an earlier one."""

    def start(self, order: Order) -> None:
        """Starts the run.

        Raises:
            TrainerError: it can't be started.
        """

    def stage(self) -> str:
        """WAITING, RUNNING, or OVER. When it is OVER, a run directory with a config has the end event."""

    def interrupt(self, number: int) -> None:
        """Forwards a signal, as the worker of a local command receives it."""

    def clean_up(self) -> None:
        """Removes the scheduler's record of the run."""


class OwnProcess:
    """A worker in a separate session on this machine.

    Args:
        folder: for the file that identifies the process.
        run: its run directory.
    """

    def __init__(self, folder: Path, run: Path) -> None:
        self._file, self._output, self._run, self.mistake = folder / "process.json", folder / "output.txt", run, ""
        self._job: LocalJob | None = None

    def has_started(self) -> bool:
        """Whether an agent has started it."""
        return self._file.exists()

    def start(self, order: Order) -> None:
        """Starts the process; errors in the order appear later, in `mistake`."""
        with _output_to(self._output):  # the worker must not hold the agent's connection open
            worker = Worker(order, attached=False)
        self._job = LocalJob(worker)
        pid = worker.process.pid
        write_text(self._file, json.dumps({"pid": pid, "started": process_started(pid)}))

    def stage(self) -> str:
        """RUNNING until the process has ended."""
        if self._job is not None:
            if not self._job.is_over():
                return RUNNING
            self.mistake = self._job.mistake or self._output.read_text(encoding="utf-8", errors="replace").strip()
            return OVER
        known = json.loads(self._file.read_text(encoding="utf-8"))
        if process_is_alive(known["pid"], known["started"]):
            return RUNNING
        self.mistake = ENDED_ALONE
        _settle(self._run, self.mistake)
        return OVER

    def interrupt(self, number: int) -> None:
        """Sends the signal."""
        known = json.loads(self._file.read_text(encoding="utf-8"))
        if process_is_alive(known["pid"], known["started"]):
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(known["pid"], number)

    def clean_up(self) -> None:
        """Does nothing."""


class Scheduled:
    """A worker that a scheduler starts, on a machine that shares this one's file system.

    Args:
        folder: for the orders, and the file with the scheduler's name of the job.
        run: its run directory.
        launcher: the scheduler.
    """

    def __init__(self, folder: Path, run: Path, launcher: LastingLauncher) -> None:
        self._orders, self._file, self._run, self._launcher = Orders(folder / "orders"), folder / "job", run, launcher
        self.mistake, self._checked_at, self._is_asked_to_end = "", 0.0, False
        if self.has_started():
            launcher.find(self._file.read_text(encoding="utf-8"), self._orders.root)

    def has_started(self) -> bool:
        """Whether an agent has handed the order to the scheduler."""
        return self._file.exists()

    def start(self, order: Order) -> None:
        """Hands the order to the scheduler, which grants one processor per thread of the run."""
        if not any(word.startswith("threads=") for word in order.words):
            order = order._replace(words=(*order.words, f"threads={self._launcher.threads}"))
        self._orders.create(is_lasting=True)
        self._orders.put(0, order)
        command = [sys.executable, "-P", "-m", "trainer.cli.executors.pilot", str(self._orders.root), os.getcwd()]
        self._launcher.launch(command, 1)
        write_text(self._file, self._launcher.job)

    def stage(self) -> str:
        """WAITING in the queue, RUNNING, or OVER."""
        mistake = self._orders.result(0)
        if mistake is None and time.monotonic() - self._checked_at > SECONDS_BETWEEN_CHECKS:
            self._checked_at = time.monotonic()
            if not self._launcher.living():
                mistake = self._orders.result(0)
                if mistake is None:
                    words = self._launcher.last_words()
                    mistake = "" if self._is_asked_to_end else f"the job ended without a result: {words}"
        if mistake is None:
            return RUNNING if self._orders.is_taken(0) else WAITING
        if not self.mistake:
            self.mistake = mistake
            _settle(self._run, mistake or ENDED_ALONE)
        return OVER

    def interrupt(self, number: int) -> None:
        """Removes a waiting job; ends a running one after its step, or immediately on a second call."""
        if self._is_asked_to_end or self._orders.withdraw(0):
            self._launcher.end()
        elif number in (signal.SIGINT, signal.SIGTERM):
            self._orders.ask_to_end(0)
        self._is_asked_to_end = True
        self._checked_at = 0.0

    def clean_up(self) -> None:
        """Removes the ended job from the scheduler."""
        self._launcher.forget()


def scheduled(folder: Path, run: Path, through: str, threads: int | None) -> Scheduled:
    """The job of a scheduler: slurm:PARTITION or ray:ADDRESS.

    Raises:
        TrainerError: the scheduler can't be reached.
    """
    kind, _, address = through.partition(":")
    launcher: LastingLauncher
    if kind == "ray":
        from trainer.cli.executors.ray_tasks import LastingTask

        launcher = LastingTask(address, threads)
    else:
        from trainer.cli.executors.slurm import SlurmArray

        launcher = SlurmArray(address, run.name, threads)
        launcher.check()
    return Scheduled(folder, run, launcher)


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Redirects the output of processes that start inside this context to a file."""
    before = [os.dup(number) for number in (1, 2)]
    with open(path, "ab") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        for number, descriptor in zip((1, 2), before, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _settle(run: Path, reason: str) -> None:
    """Ensures that the last attempt, if any, has an end event."""
    paths = RunPaths(run)
    with suppress(FileNotFoundError):
        if number := paths.last_attempt:
            settle(Attempt(paths, number, time.time()), FAILURE, f"{host_name()}: {reason}")
