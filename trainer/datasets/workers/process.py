"""A worker process: creates requested batches in shared memory, until the training process ends.

It imports NumPy and the data set's module with its imports, but not the engine.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import traceback
from queue import SimpleQueue
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.datasets.cache import set_writer
from trainer.datasets.making import BatchMaker, UnusableItem
from trainer.datasets.workers.channel import Channel
from trainer.datasets.workers.memory import Memory
from trainer.datasets.workers.messages import AddSlot, Cancel, Done, Failure, Make, Register
from trainer.datasets.workers.payload import load
from trainer.datasets.workers.slots import WritableSlot

NOTHING = -1
"""Value on the board: the worker is reading no item."""


def main(descriptor: int, board: int, number: int) -> None:
    """Serves the channel `descriptor`; `board` is the memory in which worker `number` records its current item."""
    for ignored in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # a signal to the whole group: the training process decides when to end
        signal.signal(ignored, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    set_writer(number + 1)
    channel = Channel(socket.socket(fileno=descriptor))
    worker = Worker(channel, Memory(board).map().view(np.int64)[2 * number : 2 * number + 2])
    threading.Thread(target=worker.read, daemon=True, name="orders").start()
    worker.work()


class Worker:
    """Executes orders, which another thread receives to notice the end of the training process at any time."""

    def __init__(self, channel: Channel, board: np.ndarray) -> None:
        self._channel, self._board = channel, board
        self._orders: SimpleQueue[tuple[Any, list[int]]] = SimpleQueue()
        self._makers: dict[int, BatchMaker | Failure] = {}
        self._slots: dict[int, WritableSlot] = {}
        self._cancelled: set[int] = set()

    def read(self) -> None:
        """Puts orders into the queue. Ends the process when the training process is gone."""
        try:
            while True:
                order, descriptors = self._channel.receive()
                if isinstance(order, Cancel):
                    self._cancelled.update(order.numbers)
                else:
                    self._orders.put((order, descriptors))
        finally:
            os._exit(0)

    def work(self) -> None:
        """Executes orders forever."""
        while True:
            order, descriptors = self._orders.get()
            match order:
                case Register(key, payload):
                    try:
                        self._makers[key] = load(payload, descriptors)
                    except BaseException as error:
                        self._makers[key] = _failure(error)
                case AddSlot(slot):
                    self._slots[slot] = WritableSlot(*descriptors)
                case Make():
                    try:
                        self._channel.send(self._make(order))
                    except ConnectionError:
                        os._exit(0)

    def _make(self, order: Make) -> Done:
        if order.number in self._cancelled:
            return Done(order.number)
        maker = self._makers[order.key]
        if isinstance(maker, Failure):
            return Done(order.number, failure=maker)
        slot = self._slots[order.slot]
        slot.clear()
        try:
            made = maker.make(order.plan, slot.room, lambda index: self._now(order.key, index))
            return Done(order.number, slot.placed(made.batch), made.unusable)
        except BaseException as error:
            return Done(order.number, failure=_failure(error))
        finally:
            self._now(order.key, NOTHING)
            self._cancelled.discard(order.number)

    def _now(self, key: int, index: int) -> None:
        self._board[:] = key, index


def _failure(error: BaseException) -> Failure:
    text = "".join(traceback.format_exception(error))
    unusable = None
    kind = "mistake" if isinstance(error, TrainerError) else "failure"
    if isinstance(error, UnusableItem):
        kind, unusable, error = "item", error.unusable, error.error
    names = ("message", "where", "found", "expected", "hint") if isinstance(error, TrainerError) else ()
    fields = {name: None if (value := getattr(error, name)) is None else str(value) for name in names}
    return Failure(kind, f"{type(error).__name__}: {error}", fields, text, unusable)
