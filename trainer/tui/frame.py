"""Everything that a panel may look at to draw itself once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainer.tui.glyphs import Glyphs
from trainer.tui.keys import Scope
from trainer.tui.status import Status
from trainer.tui.view import View

if TYPE_CHECKING:
    from trainer.tui.awaited import Awaited
    from trainer.tui.feed import Feed


@dataclass(frozen=True)
class WatchedRun:
    """One of several runs that are watched at once; `status` is a summary's word, empty while it is not known."""

    letter: str
    name: str
    status: str
    is_shown: bool


@dataclass(frozen=True)
class Frame:
    """One moment of a run.

    Attributes:
        run: which run it is: its directory.
        watched: the runs that are watched, where there are several.
        now: seconds since 1970, by the clock of the worker's machine.
        heartbeat: seconds since the worker was last known to live; None without a worker.
        message: what became of the user's last request; empty when there is nothing to say.
        share_read: which share of the event file the view covers.
        scroll: lines by which the screen's text is scrolled away from where it starts.
        pane: which pane is shown where there is room for only one.
        config: lines of the resolved configuration, on the screen that shows them.
        screen: which screen it is drawn on.
        has_colour: the terminal shows colours.
        is_first: nothing has been on the terminal yet: what costs time to draw may wait for the next frame.
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
    has_colour: bool = True
    is_first: bool = False
    run: str = ""
    watched: tuple[WatchedRun, ...] = ()


def frame_of(feed: Feed | Awaited, *, glyphs: Glyphs, **rest: Any) -> Frame:
    """A run as it stands now; `rest` are further fields of the frame."""
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
