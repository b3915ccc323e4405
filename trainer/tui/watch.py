"""Watches a run on the terminal."""

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

The imports take as long as a worker takes to read its configuration, and run meanwhile.
"""


class TuiResult(NamedTuple):
    """How the dashboard ended.

    Training continues (`detached`), the run was over (`finished`), or it was stopped (`stopped`); or only the dashboard
    ended: by a SIGTERM (`terminated`), because its terminal is gone (`hung_up`), or by its own error (`failed`; the
    traceback is on the terminal).
    """

    action: Action


PENDING_SECONDS = 0.25
"""Seconds after a command's start before reading its configuration is shown: most errors are found earlier, and then
nothing flickers."""


@contextmanager
def awaiting(name: str) -> Iterator[FirstFrame]:
    """A context in which the terminal shows a requested run called `name`, until its directory exists for `watch`.

    `refresh` draws it, PENDING_SECONDS after this process was started. A SIGTERM or SIGHUP raises LeftEarly.
    """
    from trainer.tui.first_frame import FirstFrame

    gc.disable()  # until the app has drawn: garbage collection would take a tenth of this time
    try:
        age = process_age(os.getpid())
        with FirstFrame(PendingRun(name, time.time, age), os.environ, patience=PENDING_SECONDS - age) as first:
            yield first
    finally:
        gc.enable()


def prepare_dashboard(is_enough: Callable[[], bool]) -> None:
    """Imports the modules of the app while the caller waits for a worker, until `is_enough` returns True."""
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
    """Shows a run's dashboard until the user leaves it.

    Args:
        run_path: the run directory; it may not have events yet.
        others: more runs to watch together: first compared in one chart, then each by its tab.
        owner: whether this is the dashboard of the command that started the run: it closes after a stop requested here.
        is_read_only: no requests are sent.
        pictures: how samples are shown, `half` (half-blocks), `kitty` or `sixel`; None: the value of TRAINER_PICTURES.
        has_mouse: use the mouse; without, the mouse belongs to the terminal and selects text.
        look_after: called about once a second; with it, the owner checks its worker and records at once an end that the
            worker could no longer record.
        begins_with_sweep: the trials of the run's sweep are shown first.
        first: the frame on the terminal since before the run's directory existed, see `awaiting`.

    Raises:
        TrainerError: the run directory does not exist, or the form of pictures is unknown.
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
                app.feed.close()  # another feed, if another run was shown
    except LeftEarly as left:
        return TuiResult(cast(Action, left.args[0]))
    finally:
        gc.enable()
        feed.close()
    if app.return_code:
        print("the dashboard failed, see the traceback above; the run is not affected", file=sys.stderr)
    return TuiResult("failed" if app.return_code else cast(Action, action or "detached"))
