"""Sequence numbers of nodes: each new node takes the next number, and new memory counts as several nodes."""

from __future__ import annotations

import itertools
import threading

BYTES_PER_TICK = 4096

count = itertools.count()
ticks = 0
_ticking = threading.Lock()


def now() -> int:
    """Returns the next sequence number, which no node gets."""
    return next(count) + ticks


def tick(nbytes: int) -> None:
    """Counts `BYTES_PER_TICK` of new memory as one node: the limit of unread history then also bounds its memory."""
    global ticks
    if nbytes >= BYTES_PER_TICK:
        with _ticking:
            ticks += nbytes // BYTES_PER_TICK
