"""The process that folds metrics: `python -P -m trainer.metrics.folding.worker CONNECTION MEMORY NICENESS`.

Started by `FoldingProcess`.

It executes orders from a connection in order, and ends with it; records are in a ring buffer in shared memory.

    ("packages", [(name, folder)…])         packages of custom classes
    ("stream", name, {slot: Slot})          the metrics to fold
    ("form", number, stream, Form)          the layout of a kind of record
    ("records", [(form, start, end, at)…])  fold batches' parts
    ("record", form, bytes, at)             the same for a batch larger than the ring
    ("values", token, stream)               → ("answer", token, (numbers, reports))
    ("states", token, stream)               → ("answer", token, arrays)
    ("restore", stream, arrays), ("reset", stream)

After an error it answers ("error", pickled error or None, traceback, at), and folds nothing more.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from trainer.configs.custom_class import package_for
from trainer.metrics.folding.fold import Stream
from trainer.metrics.folding.form import Form
from trainer.metrics.folding.ring import Ring

LOOK_SECONDS = 0.5
"""Seconds between checks that the parent is alive."""


class Worker:
    """Executes orders."""

    def __init__(self, connection: Connection, ring: Ring) -> None:
        self._connection, self._ring = connection, ring
        self._streams: dict[str, Stream] = {}
        self._forms: dict[int, tuple[str, Form]] = {}
        self._at: Any = None

    def serve(self) -> None:
        """Runs until the connection ends, or a metric fails."""
        try:
            while True:
                try:
                    order = self._connection.recv_bytes()
                except EOFError:
                    return
                what, *given = pickle.loads(order)
                self._at = None
                getattr(self, f"on_{what}")(*given)
        except Exception as error:
            self._connection.send(("error", _pickled(error), traceback.format_exc(), self._at))
            self._ring.fail()
            with contextlib.suppress(EOFError, OSError):
                while True:  # keeps the connection open until a waiting writer has received the error
                    self._connection.recv_bytes()

    def on_packages(self, packages: list[tuple[str, str]]) -> None:
        from pathlib import Path

        for name, folder in packages:
            found = package_for(Path(folder))
            if found != name:
                raise AssertionError(f"{folder} is {found} here and {name} in the training process")

    def on_stream(self, name: str, slots: dict[str, Any]) -> None:
        self._streams[name] = Stream(slots)

    def on_form(self, number: int, stream: str, form: Form) -> None:
        self._forms[number] = stream, form

    def on_records(self, records: list[tuple[int, int, int, Any]]) -> None:
        for form, start, end, at in records:
            self._at = at
            self._fold(form, self._ring.read(start, end))
            self._ring.done(end)

    def on_record(self, form: int, record: bytes, at: Any) -> None:
        self._at = at
        self._fold(form, np.frombuffer(record, np.uint8))

    def on_values(self, token: int, stream: str) -> None:
        self._connection.send(("answer", token, self._streams[stream].values()))

    def on_states(self, token: int, stream: str) -> None:
        self._connection.send(("answer", token, self._streams[stream].arrays()))

    def on_restore(self, stream: str, arrays: dict[str, dict[str, np.ndarray]]) -> None:
        self._streams[stream].restore(arrays)

    def on_reset(self, stream: str) -> None:
        self._streams[stream].states = {}

    def _fold(self, form: int, record: np.ndarray) -> None:
        stream, layout = self._forms[form]
        by_slot: dict[str, dict[str, np.ndarray]] = {}
        for (slot, part), values in layout.parts(record):
            by_slot.setdefault(slot, {})[part] = values
        for slot, given in by_slot.items():
            self._streams[stream].fold(slot, given)


def _pickled(error: Exception) -> bytes | None:
    try:
        blob = pickle.dumps(error)
        pickle.loads(blob)
    except Exception:  # an error of custom code may have any form
        return None
    return blob


def _end_with(parent: int) -> None:
    """Ends this process once its parent has ended, even while a metric is computing."""
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(0)


def main(arguments: list[str]) -> None:
    """`arguments`: the descriptors of the connection and of the memory, and the niceness."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # this process ends with its connection
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    connection, memory, niceness = (int(argument) for argument in arguments)
    os.nice(niceness)
    ring = Ring(memory)
    os.close(memory)
    Worker(Connection(connection), ring).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
