"""The worker process from the command's side, from start to end.

It starts before the command's own imports, so that both processes import at the same time.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import trainer
from trainer import TrainerError
from trainer.cli.forwarding import blocked_in_children
from trainer.cli.order import Order

if TYPE_CHECKING:
    from trainer.cli.attempt import Attempt


class Worker:
    """A starting worker process; `begin` waits until its run directory is ready.

    Args:
        order: the order to execute.
        attached: keep it in the command's process group, so that it ends with the command.
        holds_output: keep what it prints before the run exists in `output`, because the terminal shows the dashboard.
    """

    def __init__(self, order: Order, *, attached: bool, holds_output: bool = False) -> None:
        self._order = order
        self._attempt: Attempt | None = None
        self._last_words = ""
        self._is_settled = False
        reading, writing = os.pipe()
        self._report = open(reading, encoding="utf-8", errors="replace")  # noqa: SIM115  (closed by `over`)
        command = [sys.executable, "-P", "-m", "trainer.cli.worker", order.to_json(), "--report", str(writing)]
        command += ["--parent", str(os.getpid())] if attached else []
        self.output = b""
        self._holds_output = holds_output
        self._printed: int | None = None
        printing: int | None = None
        if holds_output:
            self._printed, printing = os.pipe()
        with blocked_in_children():
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=printing,
                stderr=printing,
                env=worker_environment(),
                start_new_session=not attached,
                pass_fds=(writing,),
            )
        os.close(writing)
        if printing is not None:
            os.close(printing)

    def begin(self) -> Attempt | None:
        """Waits for the run directory and returns the attempt; None if the worker ended before that.

        Raises:
            TrainerError: the order is invalid.
        """
        answer = self._next_report()
        if answer is None or "mistake" in answer:
            self.process.wait()
            self._receive()
        if answer is None:
            return None
        if "mistake" in answer:
            if answer["traceback"]:
                self._say(answer["traceback"])
            raise TrainerError(answer["mistake"])
        from pathlib import Path

        from trainer.cli.attempt import Attempt
        from trainer.rundir import RunPaths

        paths = RunPaths(Path(answer["root"]))
        self._attempt = Attempt(paths, answer["attempt"], answer["process_start"], self._order.debug)
        return self._attempt

    def has_reported(self, wait_seconds: float = 0.0) -> bool:
        """Whether `begin` would return immediately; waits at most `wait_seconds`."""
        readable: list[Any] = [self._report] if self._printed is None else [self._report, self._printed]
        ready = select.select(readable, [], [], wait_seconds)[0]
        if self._printed in ready:
            self._receive()
        return self._report in ready

    def _say(self, text: str) -> None:
        """Prints a message; it appears once the dashboard closes."""
        if self._holds_output:
            self.output += f"{text}\n".encode()
        else:
            print(text, file=sys.stderr)

    def _receive(self) -> None:
        """Collects the worker's output, if it is held."""
        while self._printed is not None and select.select([self._printed], [], [], 0)[0]:
            if not (text := os.read(self._printed, 1 << 16)):
                os.close(self._printed)
                self._printed = None
            self.output += text

    def over(self) -> bool:
        """Whether the process has ended; if so, the run has its `end` event, written here if the worker could not."""
        code = self.process.poll()
        if code is not None and not self._is_settled:
            if not self._report.closed:
                answer = self._next_report()
                self._last_words = answer["mistake"] if answer else ""
                self._report.close()
            if self._attempt is not None:
                from trainer.cli.ending import settle

                settle(self._attempt, code, self._last_words)
            self._is_settled = True
        return code is not None

    def end(self) -> None:
        """Asks the process to end if needed, waits for it, and ensures that the run has its `end` event."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        self.over()

    def leave(self) -> None:
        """Releases the process: it outlives this one."""
        self.process.returncode = 0  # this process does not wait for it

    def _next_report(self) -> dict[str, Any] | None:
        """The next report of the worker; waits for it, or for the worker's end."""
        line = self._report.readline()
        return json.loads(line) if line.endswith("\n") else None


def worker_environment() -> dict[str, str]:
    """The environment of the worker: it imports this package, and nothing from the working directory."""
    package_parent = os.path.dirname(os.path.dirname(os.path.realpath(trainer.__file__)))
    searched = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry not in ("", ".")]
    if os.path.basename(package_parent) not in ("site-packages", "dist-packages") and package_parent not in searched:
        searched.append(package_parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(searched), "PYTHONUNBUFFERED": "1"}
