"""Starting the worker, and what the command does meanwhile: follow it, show the dashboard, or leave it alone.

attached    the worker is in our process group; signals are passed on to it, and it ends when we do
detached    the worker is a session of its own; closing the terminal leaves it training
in process  there is no worker
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import trainer
from trainer import TrainerError
from trainer.cli.ending import early_exit_code, end_of, report, settle
from trainer.cli.exit_codes import DONE, TERMINATED
from trainer.cli.follow import Form, Printer, follow
from trainer.cli.forwarding import forwarded_signals
from trainer.cli.order import Attempt, Order
from trainer.rundir import RunPaths


class Worker:
    """A worker process on its way; `begin` waits until its run directory is ready."""

    def __init__(self, order: Order, *, attached: bool) -> None:
        self._order = order
        self._attempt: Attempt | None = None
        reading, writing = os.pipe()
        self._report = open(reading, encoding="utf-8", errors="replace")  # noqa: SIM115  (closed by `over`)
        command = [sys.executable, "-P", "-m", "trainer.cli.worker", order.to_json(), "--report", str(writing)]
        command += ["--parent", str(os.getpid())] if attached else []
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            env=worker_environment(),
            start_new_session=not attached,
            pass_fds=(writing,),
        )
        os.close(writing)

    def begin(self) -> Attempt | None:
        """The attempt, once its directory is there; None for a worker that was ended before that.

        Raises:
            TrainerError: what was wrong with the order.
        """
        told = self._told()
        if told is None:
            self.process.wait()
            return None
        if "mistake" in told:
            self.process.wait()
            if told["traceback"]:
                print(told["traceback"], file=sys.stderr)
            raise TrainerError(told["mistake"])
        order = self._order
        self._attempt = Attempt(RunPaths(Path(told["root"])), told["attempt"], order.process_start, order.debug)
        return self._attempt

    def over(self) -> bool:
        """Whether the process has ended; once it has, the run has its `end` event, written by us where it could not."""
        code = self.process.poll()
        if code is not None and not self._report.closed:
            told = self._told()
            self._report.close()
            if self._attempt is not None:
                settle(self._attempt, code, told["mistake"] if told else "")
        return code is not None

    def end(self) -> None:
        """Ask the process to end if it has not, wait until it has, and see that the run has its `end` event."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        self.over()

    def leave(self) -> None:
        """Leave the process to itself: it outlives us."""
        self.process.returncode = 0  # nobody here waits for it

    def _told(self) -> dict[str, Any] | None:
        """The next thing that the worker reports; waits for it, or for the worker's end."""
        line = self._report.readline()
        return json.loads(line) if line.endswith("\n") else None


def worker_environment() -> dict[str, str]:
    """Our environment, such that the worker imports this very package, and nothing from the working directory."""
    package_parent = str(Path(trainer.__file__).resolve().parent.parent)
    searched = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry not in ("", ".")]
    if Path(package_parent).name not in ("site-packages", "dist-packages") and package_parent not in searched:
        searched.append(package_parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(searched), "PYTHONUNBUFFERED": "1"}


def train_attached(order: Order, form: Form) -> int:
    """Start the worker below us, print its events, pass signals on; returns its exit code."""
    with forwarded_signals() as forward_to:
        worker = Worker(order, attached=True)
        forward_to(worker.process)
        try:
            attempt = worker.begin()
            if attempt is None:
                return early_exit_code(worker.process.returncode)
            follow(attempt.paths, form, over=worker.over, attempt=attempt.number)
        finally:
            worker.end()  # where we could not go on, nothing is left behind
    return report(attempt)


def train_on_dashboard(order: Order) -> int:
    """Start the worker in a session of its own and show the dashboard; leaving it leaves the worker training."""
    worker = Worker(order, attached=False)
    try:
        from trainer.tui import watch

        importlib.import_module("trainer.tui.app")  # here, while the worker reads the config
        attempt = worker.begin()
    except BaseException:
        worker.end()
        raise
    if attempt is None:
        return early_exit_code(worker.process.returncode)
    result = watch(attempt.paths.root, owner=True)
    if result.action == "hung_up":  # there is nobody to say anything to
        worker.leave()
        return TERMINATED
    if result.action in ("detached", "terminated") and not worker.over():
        print(f"{attempt.paths.root} goes on training.\n{_how_to(attempt)}")
        worker.leave()
        return TERMINATED if result.action == "terminated" else DONE
    worker.process.wait()
    worker.over()
    end = end_of(attempt)
    if end is not None:
        print(f"{attempt.paths.root}: {end.status}" + "".join(f"  {k} {v:.6g}" for k, v in end.metrics.items()))
    return report(attempt)


def detach(order: Order) -> int:
    """Start the worker in a session of its own and return once its run directory is there."""
    worker = Worker(order, attached=False)
    attempt = worker.begin()
    if attempt is None:
        return early_exit_code(worker.process.returncode)
    print(f"{attempt.paths.root} trains as process {worker.process.pid}.\n{_how_to(attempt)}")
    worker.leave()
    return 0


def train_here(order: Order, form: Form) -> int:
    """Train in this process, printing events as they are written."""
    from trainer.cli.prepare import prepare
    from trainer.cli.worker import work

    attempt, loaded = prepare(order)
    work(attempt, loaded, also=Printer(form, sys.stdout).print_record)
    return report(attempt)


def _how_to(attempt: Attempt) -> str:
    root = attempt.paths.root
    return f"  watch it:  trainer watch {root}\n  stop it:   trainer stop {root}"
