"""What the command does while its worker trains: follow it, show the dashboard, or leave it alone.

attached    the worker is in our process group; signals are passed on to it, and it ends when we do
detached    the worker is a session of its own; closing the terminal leaves it training
in process  there is no worker

Imports stand below the start of the worker, which takes longer than they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.cli.exit_codes import BY_WAY_OF_LEAVING, DONE, TERMINATED, early_exit_code
from trainer.cli.forms import Form
from trainer.cli.forwarding import forwarded_signals
from trainer.cli.order import Order
from trainer.cli.starting import Worker

if TYPE_CHECKING:
    from trainer.cli.attempt import Attempt


def train_attached(order: Order, form: Form) -> int:
    """Start the worker below us, print its events, pass signals on; returns its exit code."""
    with forwarded_signals() as forward_to:
        worker = Worker(order, attached=True)
        forward_to(worker.process)
        try:
            from trainer.cli.ending import report
            from trainer.cli.follow import follow

            attempt = worker.begin()
            if attempt is None:
                return early_exit_code(worker.process.returncode)
            follow(attempt.paths, form, over=worker.over, attempt=attempt.number)
        finally:
            worker.end()  # where we could not go on, nothing is left behind
    return report(attempt)


def train_on_dashboard(order: Order, *, has_mouse: bool, pictures: str | None) -> int:
    """Start the worker in a session of its own and show the dashboard; leaving it leaves the worker training."""
    worker = Worker(order, attached=False)
    try:
        from trainer.cli.ending import report, summary
        from trainer.tui import prepare_dashboard, watch

        prepare_dashboard(worker.has_told)
        attempt = worker.begin()
    except BaseException:
        worker.end()
        raise
    if attempt is None:
        return early_exit_code(worker.process.returncode)
    result = watch(attempt.paths.root, owner=True, has_mouse=has_mouse, pictures=pictures, look_after=worker.over)
    if result.action == "hung_up":  # there is nobody to say anything to
        worker.leave()
        return TERMINATED
    if result.action in ("detached", "terminated", "failed") and not worker.over():
        print(f"{attempt.paths.root} goes on training.\n{_how_to(attempt)}")
        worker.leave()
        return BY_WAY_OF_LEAVING[result.action]
    worker.process.wait()
    worker.over()
    print("\n".join(summary(attempt)))
    return report(attempt)


def detach(order: Order) -> int:
    """Start the worker in a session of its own and return once its run directory is there."""
    worker = Worker(order, attached=False)
    attempt = worker.begin()
    if attempt is None:
        return early_exit_code(worker.process.returncode)
    print(f"{attempt.paths.root} trains as process {worker.process.pid}.\n{_how_to(attempt)}")
    worker.leave()
    return DONE


def train_here(order: Order, form: Form) -> int:
    """Train in this process, printing events as they are written."""
    import sys

    from trainer.cli.ending import report
    from trainer.cli.follow import Printer
    from trainer.cli.prepare import prepare
    from trainer.cli.worker import work

    attempt, loaded = prepare(order)
    work(attempt, loaded, also=Printer(form, sys.stdout).print_record)
    return report(attempt)


def _how_to(attempt: Attempt) -> str:
    root = attempt.paths.root
    return f"  watch it:  trainer watch {root}\n  stop it:   trainer stop {root}"
