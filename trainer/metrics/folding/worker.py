"""The process that folds metrics: `python -P -m trainer.metrics.folding.worker CONNECTION MEMORY`, made by `Folder`.

It takes orders from a connection, in order, and ends with it; records lie in a ring in shared memory.

    ("packages", [(name, folder)…])         where classes of the user's own are
    ("stream", name, {slot: Slot})          what to fold
    ("layout", number, stream, slots…)      the form of a kind of record: [(slot, part, dtype, shape)…]
    ("record", layout, start, end, at)      fold a batch's parts
    ("arrays", stream, slot, part, at)      the same, of a batch that is larger than the ring
    ("values", token, stream)               → ("values", token, numbers, reports)
    ("states", token, stream)               → ("states", token, arrays)
    ("restore", stream, arrays), ("reset", stream)

After an error it answers with that, ("error", pickled error or None, traceback, at), and folds nothing more.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from trainer.configs.own import package_for
from trainer.metrics.folding.fold import Stream
from trainer.metrics.folding.ring import Ring


class Worker:
    """Carries out orders."""

    def __init__(self, connection: Connection, ring: Ring) -> None:
        self._connection, self._ring = connection, ring
        self._streams: dict[str, Stream] = {}
        self._layouts: dict[int, tuple[str, list[tuple[str, str]], list[Any]]] = {}

    def serve(self) -> None:
        """Until the connection ends, or a metric fails."""
        at: Any = None
        try:
            while True:
                try:
                    order = self._connection.recv_bytes()
                except EOFError:
                    return
                what, *given = pickle.loads(order)
                at = given[-1] if what in ("record", "arrays") else None
                getattr(self, f"on_{what}")(*given)
        except Exception as error:
            self._connection.send(("error", _pickled(error), traceback.format_exc(), at))
            self._ring.fail()
            with contextlib.suppress(EOFError, OSError):
                while True:  # whoever waits for room hears of the error first
                    self._connection.recv_bytes()

    def on_packages(self, packages: list[tuple[str, str]]) -> None:
        from pathlib import Path

        for name, folder in packages:
            found = package_for(Path(folder))
            if found != name:
                raise AssertionError(f"{folder} is {found} here and {name} in the training process")

    def on_stream(self, name: str, slots: dict[str, Any]) -> None:
        self._streams[name] = Stream(slots)

    def on_layout(self, number: int, stream: str, fields: list[tuple[str, str, str, tuple[int, ...]]]) -> None:
        parts = [(slot, part) for slot, part, _, _ in fields]
        self._layouts[number] = stream, parts, [(np.dtype(dtype), shape) for _, _, dtype, shape in fields]

    def on_record(self, layout: int, start: int, end: int, at: Any) -> None:
        stream, parts, forms = self._layouts[layout]
        self._fold(stream, parts, self._ring.read(start, forms))
        self._ring.done(end)

    def on_arrays(self, layout: int, arrays: list[np.ndarray], at: Any) -> None:
        stream, parts, _ = self._layouts[layout]
        self._fold(stream, parts, arrays)

    def on_values(self, token: int, stream: str) -> None:
        self._connection.send(("answer", token, self._streams[stream].values()))

    def on_states(self, token: int, stream: str) -> None:
        self._connection.send(("answer", token, self._streams[stream].arrays()))

    def on_restore(self, stream: str, arrays: dict[str, dict[str, np.ndarray]]) -> None:
        self._streams[stream].restore(arrays)

    def on_reset(self, stream: str) -> None:
        self._streams[stream].states = {}

    def _fold(self, stream: str, parts: list[tuple[str, str]], arrays: list[np.ndarray]) -> None:
        by_slot: dict[str, dict[str, np.ndarray]] = {}
        for (slot, part), values in zip(parts, arrays, strict=True):
            by_slot.setdefault(slot, {})[part] = values
        for slot, given in by_slot.items():
            self._streams[stream].fold(slot, given)


def _pickled(error: Exception) -> bytes | None:
    try:
        blob = pickle.dumps(error)
        pickle.loads(blob)
    except Exception:  # an error of the user's own may be of any form
        return None
    return blob


def main(arguments: list[str]) -> None:
    """`arguments`: the descriptors of the connection and of the memory."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # this ends when its connection does
        signal.signal(number, signal.SIG_IGN)
    connection, memory = (int(argument) for argument in arguments)
    ring = Ring(memory)
    os.close(memory)
    Worker(Connection(connection), ring).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
