"""The data for one drawing of a panel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trainer.tui.glyphs import Glyphs
from trainer.tui.keys import Scope
from trainer.tui.status import Status
from trainer.tui.view import View

if TYPE_CHECKING:
    from trainer.tui.feed import Feed
    from trainer.tui.pending_run import PendingRun


class WatchedRun(NamedTuple):
    """One of several runs that are watched together; `status` is the word of its summary, empty while unknown."""

    letter: str
    name: str
    status: str
    is_shown: bool


class Frame(NamedTuple):
    """One moment of a run.

    Attributes:
        run: the directory of the run.
        watched: the runs that are watched together, if there are several.
        now: seconds since 1970, by the clock of the worker's machine.
        heartbeat: seconds since the worker was last known to be alive; None without a worker.
        message: the answer to the last request; empty without one.
        share_read: share of the event file that the view covers, 0 to 1.
        scroll: number of lines by which the text is scrolled from its start.
        pane: the shown pane, on a terminal with room for one only.
        config: lines of the resolved configuration, on the screen that shows them.
        screen: the screen on which the frame is drawn.
        has_color: the terminal shows colors.
        is_first: this is the first frame on the terminal; slow drawing waits for the next frame.
    """

    view: View
    status: Status
    now: float
    glyphs: Glyphs
    message: str = ""
    share_read: float = 1.0
    scroll: int = 0
    pane: str = ""
    heartbeat: float | None = None
    config: tuple[str, ...] = ()
    screen: Scope = "overview"
    has_color: bool = True
    is_first: bool = False
    run: str = ""
    watched: tuple[WatchedRun, ...] = ()


def frame_of(feed: Feed | PendingRun, *, glyphs: Glyphs, **rest: Any) -> Frame:
    """The current frame of a run; `rest` are further fields of the frame."""
    lock = feed.lock
    return Frame(
        view=feed.view,
        status=feed.status(),
        now=feed.worker_time,
        heartbeat=None if lock is None else max(0.0, feed.clock() - lock.heartbeat),
        share_read=feed.share_read,
        run=feed.root,
        glyphs=glyphs,
        **rest,
    )
