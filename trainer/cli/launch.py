"""The command while its worker trains: prints events, shows the dashboard, or exits.

attached    the worker is in the command's process group, receives its signals, and ends with it
detached    the worker has a separate session; it continues when the terminal closes
in process  no worker

Imports run after the worker is started, because its start takes longer than they do.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.cli.exit_codes import DONE, EXIT_CODES_OF_DASHBOARD, TERMINATED, USER_MISTAKE, early_exit_code
from trainer.cli.forms import Form
from trainer.cli.forwarding import forwarded_signals
from trainer.cli.order import Order
from trainer.cli.starting import Worker

if TYPE_CHECKING:
    from trainer.cli.attempt import Attempt
    from trainer.learner.ranks import Group
    from trainer.tui import TuiResult
    from trainer.tui.first_frame import FirstFrame

LOOK_SECONDS = 0.05
"""Seconds between updates of the display before the run directory exists."""


def train_attached(order: Order, form: Form) -> int:
    """Starts an attached worker, prints its events, passes signals on; returns its exit code."""
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
            worker.end()  # if this process fails, the worker must not be left behind
    _print_summary(attempt, form)
    return report(attempt)


def train_on_dashboard(order: Order, *, has_mouse: bool, pictures: str | None) -> int:
    """Starts the worker in a separate session and shows the dashboard; closing the dashboard does not stop the worker.

    The dashboard appears before the worker has read its configuration. If no run is created, it closes first; then the
    worker's output and errors are printed.
    """
    worker = Worker(order, attached=False, holds_output=True)
    try:
        attempt, result = _shown(worker, order, has_mouse=has_mouse, pictures=pictures)
    finally:
        with suppress(OSError):  # the terminal is gone
            sys.stderr.write(worker.output.decode("utf-8", "replace"))
            sys.stderr.flush()
    if result is None:
        return early_exit_code(worker.process.returncode)
    if attempt is None or result.action == "hung_up":
        worker.leave()
        if result.action != "hung_up":  # otherwise nobody can read the message
            print(f"{order.run_name} is still starting; `trainer runs` will list it.")
        return TERMINATED
    from trainer.cli.ending import report, summary

    if result.action in ("detached", "terminated", "failed") and not worker.over():
        print(f"{attempt.paths.root} continues training.\n{_how_to(attempt)}")
        worker.leave()
        return EXIT_CODES_OF_DASHBOARD[result.action]
    worker.process.wait()
    worker.over()
    print("\n".join(summary(attempt)))
    return report(attempt)


def _shown(
    worker: Worker, order: Order, *, has_mouse: bool, pictures: str | None
) -> tuple[Attempt | None, TuiResult | None]:
    """The attempt, and how its dashboard was closed; each None if it did not exist.

    Raises:
        TrainerError: the order is invalid; the worker has ended.
    """
    from trainer.tui import TuiResult, awaiting, prepare_dashboard, watch
    from trainer.tui.first_frame import LeftEarly

    attempt = result = None
    try:
        with awaiting(order.run_name) as first:
            prepare_dashboard(lambda: _has_reported(worker, first))
            while not _has_reported(worker, first, wait_seconds=LOOK_SECONDS):
                pass
            attempt = worker.begin()
            if attempt is not None:
                result = watch(
                    attempt.paths.root, owner=True, has_mouse=has_mouse, pictures=pictures, look_after=worker.over,
                    first=first,
                )  # fmt: skip
    except LeftEarly as left:
        result = TuiResult(left.args[0])
    except BaseException as error:
        if attempt is None or isinstance(error, TrainerError):
            worker.end()
        raise
    return attempt, result


def _has_reported(worker: Worker, first: FirstFrame, wait_seconds: float = 0.0) -> bool:
    """Whether the worker has reported its start; until then the terminal shows the last line that it printed."""
    if worker.has_reported(wait_seconds):
        return True
    first.say(worker.output)
    first.refresh()
    return False


def detach(order: Order) -> int:
    """Starts the worker in a separate session and returns once its run directory exists."""
    worker = Worker(order, attached=False)
    attempt = worker.begin()
    if attempt is None:
        return early_exit_code(worker.process.returncode)
    print(f"{attempt.paths.root} is training in process {worker.process.pid}.\n{_how_to(attempt)}")
    worker.leave()
    return DONE


def train_in_ranks(order: Order, form: Form, count: int, launcher: str) -> int:
    """Trains as one of `count` processes that a launcher has started; rank 0 prints events."""
    from trainer.cli.rank import follow_first
    from trainer.learner.ranks.start import from_launcher

    group = from_launcher(count, launcher)
    return train_here(order, form, group) if group.is_first else follow_first(group)


def train_here(order: Order, form: Form, group: Group | None = None) -> int:
    """Trains in this process and prints events as they are written; with a group, as its rank 0."""
    from trainer.cli.ending import report, settle
    from trainer.cli.follow import Printer
    from trainer.cli.prepare import prepare
    from trainer.cli.worker import work

    try:
        attempt, loaded = prepare(order)
    except TrainerError:
        if group is not None:
            group.from_first(None)  # the others wait for the run
        raise
    try:
        printer = Printer(form, sys.stdout, attempt.paths.leading_metric)
        work(attempt, loaded, also=printer.print_record, group=group)
    except TrainerError as error:
        settle(attempt, USER_MISTAKE, str(error))
        raise
    _print_summary(attempt, form)
    return report(attempt)


def _print_summary(attempt: Attempt, form: Form) -> None:
    """Prints how the run ended to standard error on a terminal; standard output has only `key=value` lines or JSON."""
    from trainer.cli.ending import summary

    if form is Form.PLAIN and sys.stderr.isatty():
        print("\n".join(summary(attempt)), file=sys.stderr)


def _how_to(attempt: Attempt) -> str:
    root = attempt.paths.root
    return f"  watch it:  trainer watch {root}\n  stop it:   trainer stop {root}"
