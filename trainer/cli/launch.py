"""Starting the worker, and what the command does meanwhile: follow it, show the dashboard, or leave it alone.

attached    the worker is in our process group; signals are passed on to it, and it ends when we do
detached    the worker is a session of its own; closing the terminal leaves it training
in process  there is no worker
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import trainer
from trainer.cli.ending import end_of, report, settle
from trainer.cli.follow import Form, Printer, follow
from trainer.cli.forwarding import forwarded_signals
from trainer.cli.prepare import Prepared
from trainer.rundir import write_error


class Worker:
    """A worker process. Its output goes to the run's log; what it says when it can write no event comes by a pipe."""

    def __init__(self, prepared: Prepared, *, attached: bool) -> None:
        self._prepared = prepared
        self._words, last_words = os.pipe()
        command = [
            sys.executable, "-P", "-m", "trainer.cli.worker", str(prepared.paths.root),
            "--attempt", str(prepared.attempt), "--process-start", repr(prepared.process_start),
            "--last-words", str(last_words),
        ]  # fmt: skip
        command += ["--parent", str(os.getpid())] if attached else []
        command += ["--resume"] if prepared.resumes else []
        command += ["--debug"] if prepared.debug else []
        try:
            with open(prepared.paths.log, "ab") as log:
                self.process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=worker_environment(prepared),
                    start_new_session=not attached, pass_fds=(last_words,),
                )  # fmt: skip
        except OSError as error:
            raise write_error(prepared.paths.log, error) from error
        finally:
            os.close(last_words)

    def over(self) -> bool:
        """Whether the process has ended; once it has, the run has its `end` event, written by us where it could not."""
        code = self.process.poll()
        if code is not None and self._words >= 0:
            words, self._words = self._words, -1
            with open(words, encoding="utf-8", errors="replace") as pipe:
                settle(self._prepared, code, pipe.read().strip())
        return code is not None

    def end(self) -> None:
        """Ask the process to end if it has not, wait until it has, and see that the run has its `end` event."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        self.over()


def worker_environment(prepared: Prepared) -> dict[str, str]:
    """Our environment, such that the worker imports this very package, and nothing from the working directory."""
    package_parent = str(Path(trainer.__file__).resolve().parent.parent)
    searched = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry not in ("", ".")]
    if Path(package_parent).name not in ("site-packages", "dist-packages") and package_parent not in searched:
        searched.append(package_parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(searched), "PYTHONUNBUFFERED": "1"}
    if prepared.threads is not None:
        for library in ("OMP", "OPENBLAS", "MKL"):  # NumPy's own pools, sized when it is imported
            environment.setdefault(f"{library}_NUM_THREADS", str(prepared.threads))
    return environment


def train_attached(prepared: Prepared, form: Form) -> int:
    """Start the worker below us, print its events, pass signals on; returns its exit code."""
    with forwarded_signals() as forward_to:
        worker = Worker(prepared, attached=True)
        forward_to(worker.process)
        try:
            prepared.announce(worker.process.pid)
            follow(prepared.paths, form, over=worker.over, attempt=prepared.attempt)
        finally:
            worker.end()  # where we could not go on, nothing is left behind
    return report(prepared)


def train_on_dashboard(prepared: Prepared) -> int:
    """Start the worker in a session of its own and show the dashboard; leaving it leaves the worker training."""
    worker = Worker(prepared, attached=False)
    prepared.announce(worker.process.pid)
    from trainer.tui import watch

    result = watch(prepared.paths.root, owner=True)
    if result.action == "detached" and not worker.over():
        print(f"{prepared.paths.root} goes on training.\n{_how_to(prepared)}")
        return 0
    worker.process.wait()
    worker.over()
    end = end_of(prepared)
    if end is not None:
        print(f"{prepared.paths.root}: {end.status}" + "".join(f"  {k} {v:.6g}" for k, v in end.metrics.items()))
    return report(prepared)


def detach(prepared: Prepared) -> int:
    """Start the worker in a session of its own and return at once."""
    worker = Worker(prepared, attached=False)
    prepared.announce(worker.process.pid)
    print(f"{prepared.paths.root} trains as process {worker.process.pid}.\n{_how_to(prepared)}")
    worker.process.returncode = 0  # it outlives us: nobody here waits for it
    return 0


def train_here(prepared: Prepared, form: Form) -> int:
    """Train in this process, printing events as they are written."""
    from trainer.cli.worker import Assignment, work

    printer = Printer(form, sys.stdout)
    work(
        Assignment(
            prepared.paths, prepared.attempt, prepared.process_start, resumes=prepared.resumes, debug=prepared.debug
        ),
        announce=lambda sink: prepared.announce_to(sink, os.getpid()),
        also=printer.print_record,
    )
    return report(prepared)


def _how_to(prepared: Prepared) -> str:
    root = prepared.paths.root
    return f"  watch it:  trainer watch {root}\n  stop it:   trainer stop {root}"
