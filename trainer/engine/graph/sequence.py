"""The sequence of nodes: each new node takes the next number, and new memory counts as several nodes."""

from __future__ import annotations

import itertools
import threading

BYTES_PER_TICK = 4096

count = itertools.count()
ticks = 0
_ticking = threading.Lock()


def tick(nbytes: int) -> None:
    """Let `nbytes` of new memory count as one node per `BYTES_PER_TICK` in the sequence of nodes: what bounds the
    history of unread values then bounds their memory, too.
    """
    global ticks
    if nbytes >= BYTES_PER_TICK:
        with _ticking:
            ticks += nbytes // BYTES_PER_TICK
