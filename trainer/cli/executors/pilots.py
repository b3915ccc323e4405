"""The executor for pilots: processes on other machines that take orders from a folder."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from trainer import TrainerError
from trainer.cli.executors.orders import SECONDS_BETWEEN_LOOKS, Orders
from trainer.cli.order import Order

SECONDS_BETWEEN_CHECKS = 2.0
"""Seconds between two queries to the scheduler."""


class Launcher(Protocol):
    """Starts pilots on other machines.

    Attributes:
        threads: threads of each pilot's runs.
    """

    threads: int

    def launch(self, command: Sequence[str], count: int) -> None:
        """Starts this command `count` times, each time with its number, from 0, as the last argument.

        Raises:
            TrainerError: the scheduler refuses.
        """

    def living(self) -> set[int]:
        """The numbers of the pilots that run or wait in the queue."""

    def end(self) -> None:
        """Removes the pilots that still wait in the queue, and ends the others."""

    def last_words(self) -> str:
        """The last output of the pilots."""


class LastingLauncher(Launcher, Protocol):
    """Starts pilots that outlive this process.

    Attributes:
        job: the scheduler's name of the launched pilot, by which another process finds it.
    """

    job: str

    def find(self, job: str, logs: Path) -> None:
        """Continues with a pilot that another process has launched; `logs` is the folder of its orders."""

    def forget(self) -> None:
        """Removes the scheduler's record of a pilot that has ended."""


class Pilots:
    """An executor whose runs train on pilots, which are started with the first order.

    Args:
        folder: for the orders; created here.
        launcher: starts the pilots.
        count: number of pilots.
    """

    def __init__(
        self, folder: Path, launcher: Launcher, count: int, *, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self.orders, self._launcher, self._count, self._wait = Orders(folder.absolute()), launcher, count, wait
        self.threads = launcher.threads
        self._numbers, self._open = itertools.count(), set[int]()
        self._checked_at, self._is_launched, self._has_worked = 0.0, False, True

    def __enter__(self) -> Pilots:
        self.orders.create()
        return self

    def __exit__(self, *exception: object) -> None:
        self.orders.delete()
        if self._is_launched:
            self._launcher.end()

    def start(self, order: Order) -> PilotJob:
        """Hands out an order."""
        number = next(self._numbers)
        self.orders.put(number, order)
        self._open.add(number)
        if not self._is_launched:
            self._launch()
        return PilotJob(self, number)

    def result(self, number: int) -> str | None:
        """Why an order's run couldn't be started, empty if it was; None while it isn't done. Also checks the pilots.

        Raises:
            TrainerError: no pilot is left, and the last ones did nothing.
        """
        self.orders.beat()
        mistake = self.orders.result(number)
        if mistake is not None:
            self._open.discard(number)
            self._has_worked = True
        elif time.monotonic() - self._checked_at > SECONDS_BETWEEN_CHECKS:
            self._look_after_pilots()
        return mistake

    def end(self, number: int) -> None:
        """Withdraws an order, or ends its run and waits for the end."""
        self.orders.ask_to_end(number)
        while not self.orders.withdraw(number) and self.result(number) is None:
            self._wait(SECONDS_BETWEEN_LOOKS)
        self._open.discard(number)

    def _launch(self) -> None:
        command = [sys.executable, "-P", "-m", "trainer.cli.executors.pilot", str(self.orders.root), os.getcwd()]
        self._launcher.launch(command, self._count)
        self._is_launched, self._has_worked, self._checked_at = True, False, time.monotonic()

    def _look_after_pilots(self) -> None:
        self._checked_at = time.monotonic()
        living = self._launcher.living()
        for number in self._open:
            self.orders.put_back(number, living)
        if not living:
            if not self._has_worked:
                raise TrainerError(
                    "the processes on the other machines ended without a run", found=self._launcher.last_words(),
                    expected="this environment and this folder on those machines: the same Python, trainer and paths",
                )  # fmt: skip
            self._launch()


class PilotJob:
    """A run on a pilot."""

    def __init__(self, pilots: Pilots, number: int) -> None:
        self._pilots, self._number, self.mistake, self._is_over = pilots, number, "", False

    def is_over(self) -> bool:
        """Whether the run has ended."""
        if not self._is_over and (mistake := self._pilots.result(self._number)) is not None:
            self._is_over, self.mistake = True, mistake
        return self._is_over

    def end(self) -> None:
        """Ends the run after its current step, and waits for the end."""
        if not self._is_over:
            self._pilots.end(self._number)
            self._is_over = True
