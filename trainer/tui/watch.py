"""Watching a run on the terminal."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from trainer.rundir import process_age
from trainer.tui.feed import Feed
from trainer.tui.forms import choose_form
from trainer.tui.pending_run import PendingRun

if TYPE_CHECKING:
    from trainer.tui.first_frame import FirstFrame

Action = Literal["detached", "finished", "stopped", "terminated", "hung_up", "failed"]
PARTS_OF_THE_APP = (
    "asyncio",
    "rich.console",
    "textual",
    "textual.css.styles",
    "textual.widget",
    "textual.screen",
    "textual.command",
    "textual.app",
    "textual.pilot",
    "textual.scrollbar",
    "textual.layouts.factory",
    "trainer.tui.screens",
    "trainer.tui.app",
    "trainer.tui.driver",
)
"""Modules that the app and Textual import before a frame, in pieces of a few tens of milliseconds.

They take as long as a worker takes to read its configuration, and are imported meanwhile.
"""


class TuiResult(NamedTuple):
    """How the dashboard was left.

    Training continues (`detached`), the run was over (`finished`), or it was stopped (`stopped`); or the dashboard
    alone was ended from outside, by a SIGTERM (`terminated`) or because its terminal is gone (`hung_up`), or by an
    error of its own (`failed`; the traceback is on the terminal).
    """

    action: Action


PENDING_SECONDS = 0.25
"""How long after a command's start its configuration may still be read before that is shown: most mistakes are found
earlier, and then nothing flickers."""


@contextmanager
def awaiting(name: str) -> Iterator[FirstFrame]:
    """Within, the terminal shows a run that has been asked for by `name`, until its directory is there for `watch`.

    It is drawn by `refresh`, PENDING_SECONDS after this process was started. A SIGTERM or SIGHUP raises LeftEarly.
    """
    from trainer.tui.first_frame import FirstFrame

    gc.disable()  # until the app has drawn: looking for garbage would be a tenth of all this
    try:
        age = process_age(os.getpid())
        with FirstFrame(PendingRun(name, time.time, age), os.environ, patience=PENDING_SECONDS - age) as first:
            yield first
    finally:
        gc.enable()


def prepare_dashboard(is_enough: Callable[[], bool]) -> None:
    """Import what the app needs while a worker is waited for, until that `is_enough`."""
    for part in PARTS_OF_THE_APP:
        if is_enough():
            return
        importlib.import_module(part)


def watch(
    run_path: Path,
    *others: Path,
    owner: bool = False,
    is_read_only: bool = False,
    has_mouse: bool = True,
    pictures: str | None = None,
    look_after: Callable[[], object] | None = None,
    first: FirstFrame | None = None,
    begins_with_sweep: bool = False,
) -> TuiResult:
    """Show a run's dashboard until the user leaves it.

    Args:
        run_path: the run directory; it may still be without events.
        others: further runs to be watched at once: shown over each other first, then one or the other by its tab.
        owner: the dashboard of the command that started the run: it leaves by itself when a stop asked for here is
            done.
        is_read_only: no requests are sent.
        pictures: how samples are shown, `half` (half-blocks), `kitty` or `sixel`; None: the value of TRAINER_PICTURES.
        has_mouse: take the mouse; without, it is the terminal's own, and selects text.
        look_after: called about once a second; the owner sees to its worker, so that the run's records tell at once
            what the worker could not tell any more.
        begins_with_sweep: the trials of the run's sweep are shown first.
        first: what has been on the terminal since before the run was there, see `awaiting`.

    Raises:
        TrainerError: there is no such run directory, or no such form of pictures.
    """
    from trainer.tui.first_frame import FirstFrame, LeftEarly

    form, why = choose_form(pictures, os.environ)
    watched = tuple(dict.fromkeys(path.resolve() for path in (run_path, *others)))
    feed = Feed(run_path, time.time, is_read_only=is_read_only, watched=watched if len(watched) > 1 else ())
    gc.disable()
    try:
        if first is not None:
            first.follow(feed, why)
        with FirstFrame(feed, os.environ, why) if first is None else nullcontext(first) as first:
            first.show_long_run()
            for part in PARTS_OF_THE_APP:
                importlib.import_module(part)
                first.refresh()
            from trainer.tui.app import Dashboard

            app = Dashboard(
                feed, owner=owner, look_after=look_after, environment=os.environ, pictures=form, note=why,
                begins_with_sweep=begins_with_sweep, first_frame=first,
            )  # fmt: skip
            try:
                action = app.run(mouse=has_mouse)
            finally:
                app.feed.close()  # another one, where another run was looked at
    except LeftEarly as left:
        return TuiResult(cast(Action, left.args[0]))
    finally:
        gc.enable()
        feed.close()
    if app.return_code:
        print("the dashboard failed, see the traceback above; the run is not affected", file=sys.stderr)
    return TuiResult("failed" if app.return_code else cast(Action, action or "detached"))
