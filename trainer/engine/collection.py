"""Pauses Python's cyclic garbage collector while it can't free anything."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_held() -> Iterator[None]:
    """Pauses the cyclic garbage collector inside the `with` block; restores its state afterwards."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
