"""The sequence of nodes: each new node takes the next number, and new memory counts as several nodes."""

from __future__ import annotations

import itertools
import threading

BYTES_PER_TICK = 4096

count = itertools.count()
ticks = 0
_ticking = threading.Lock()


def now() -> int:
    """The sequence that the next node would have; taken by nobody."""
    return next(count) + ticks


def tick(nbytes: int) -> None:
    """Count `BYTES_PER_TICK` of new memory as one node: what bounds unread history then bounds its memory too."""
    global ticks
    if nbytes >= BYTES_PER_TICK:
        with _ticking:
            ticks += nbytes // BYTES_PER_TICK
