"""Worker processes that create batches in shared memory, for all loaders of a training."""

from __future__ import annotations

import itertools
import json
import mmap
import os
import selectors
import signal
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import Batch
from trainer.datasets.making import BatchMaker, Made, UnusableItem
from trainer.datasets.planning import Plan, Planner, Position
from trainer.datasets.workers.channel import Channel
from trainer.datasets.workers.memory import Memory, open_files_allowed
from trainer.datasets.workers.messages import AddSlot, Cancel, Done, Failure, Make, Register
from trainer.datasets.workers.payload import Payload, dump
from trainer.datasets.workers.slots import Placed, arrays_in

RESTARTS = 3
"""Maximum number of workers that may die during a training before it fails."""

MOST_LENT = 4
"""Maximum number of batches in shared memory that the training process references; further batches are copied, so that
shared memory stays limited.
"""

SECONDS_TO_WONDER = 30.0
"""Seconds after which a slow batch is reported, with the items that the workers are reading."""

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); " + (
    "from trainer.datasets.workers.process import main; main(*map(int, sys.argv[2:]))"
)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Tell = Callable[[str], None]


class WorkerFailure(Exception):
    """The code of a data set failed in a worker process; the text contains the traceback."""


class Slot:
    """The training process's side of a slot."""

    def __init__(self, number: int) -> None:
        self.number, self.memory = number, Memory.create(0, f"batch-{number}")
        self._mapping: mmap.mmap | None = None

    def bytes(self) -> np.ndarray:
        """The slot's bytes, which a worker may have enlarged. Each call returns a new array, which lives as long as any
        view of it: NumPy makes it the base of all its views, including views of views.
        """
        if self._mapping is None or len(self._mapping) < self.memory.size:
            self._mapping = self.memory.mapping()
        return np.frombuffer(self._mapping, np.uint8)


@dataclass(eq=False)
class Pending:
    """A requested batch."""

    order: Make
    slot: Slot
    pool: WorkerPool
    done: Done | None = None
    is_cancelled: bool = False

    def result(self) -> Made:
        """Waits for the batch and returns it.

        Raises:
            UnusableItem, TrainerError, WorkerFailure: it could not be created.
        """
        return self.pool.wait(self)

    def cancel(self) -> None:
        """Cancels the request. Safe to call from the garbage collector."""
        self.pool.unwanted.append(self)


@dataclass(eq=False)
class _Process:
    number: int
    popen: subprocess.Popen[bytes]
    channel: Channel
    makers: set[int] = field(default_factory=set)
    slots: set[int] = field(default_factory=set)
    outstanding: dict[int, Pending] = field(default_factory=dict)


class WorkerPool:
    """`workers` processes, started immediately and restarted when they die; they end with this process.

    Args:
        workers: number of processes.
        ahead: number of batches that a loader requests in advance, per worker.
        restarts: number of workers that may die before the training fails.
        tell: receives messages about dead workers and slow batches.
        wonder_after: seconds after which a batch is reported as slow.
    """

    kind = "process"

    def __init__(
        self,
        workers: int,
        ahead: int = 2,
        *,
        restarts: int = RESTARTS,
        tell: Tell | None = None,
        wonder_after: float = SECONDS_TO_WONDER,
    ) -> None:
        self.workers, self.tell, self.wonder_after = workers, tell, wonder_after
        self.ahead = max(workers, min(ahead * workers, open_files_allowed() // 4))  # each batch needs an open file
        self.restarts_left = restarts
        self.killed = 0
        self._numbers = itertools.count()
        self._makers: dict[int, tuple[BatchMaker, Payload, list[Memory]]] = {}
        self._slots: list[Slot] = []
        self._free: deque[Slot] = deque()
        self._lent = 0
        self.unwanted: deque[Pending] = deque()  # filled by the garbage collector, at any moment
        self._returned: deque[Slot] = deque()
        self._lock = threading.RLock()
        self._processes: list[_Process] = []
        self._board = Memory.create(16 * workers, "board")
        self._now = self._board.map().view(np.int64).reshape(workers, 2)
        self._children: list[tuple[subprocess.Popen[bytes], Channel]] = []
        weakref.finalize(self, _end, self._children)
        self._start()

    # --- asking for batches -------------------------------------------------------------------------------------------

    def register(self, maker: BatchMaker, planner: Planner) -> Callable[[Position], Pending]:
        """Sends `maker` to the workers; returns a function that requests a batch.

        Raises:
            TrainerError: it can't be pickled.
        """
        payload, memories = dump(maker, "the data set")
        with self._lock:
            key = next(self._numbers)
            self._makers[key] = maker, payload, memories
            with self._whole():
                for process in self._processes:
                    self._introduce(process, key)
        return lambda position: self._ask(key, planner(position))

    def _ask(self, key: int, plan: Plan) -> Pending:
        with self._lock, self._whole():
            self._start()
            self._take_back()
            if not self._free:
                self._listen(seconds=0)  # receives cancelled batches
            slot = self._free.pop() if self._free else self._new_slot()
            pending = Pending(Make(next(self._numbers), key, plan, slot.number), slot, self)
            self._give(min(self._processes, key=lambda process: len(process.outstanding)), pending)
            return pending

    def wait(self, pending: Pending) -> Made:
        """Waits for a batch and returns it, as `Pending.result` does."""
        with self._lock, self._whole():
            while pending.done is None:
                if pending.is_cancelled:
                    raise RuntimeError("the batch was cancelled")
                self._listen()
            done = pending.done
            if done.failure is not None:
                self._free.append(pending.slot)
            elif done.placed is not None:
                return Made(self._handed_out(pending.slot, done.placed), done.unusable)
        assert done.failure is not None
        raise _error(done.failure)

    def _handed_out(self, slot: Slot, placed: dict[str, Placed]) -> Batch:
        memory = slot.bytes()
        batch = arrays_in(memory, placed)
        self._take_back()
        if self._lent >= MOST_LENT:
            self._free.append(slot)
            return {name: array.copy(order="K") for name, array in batch.items()}
        self._lent += 1
        weakref.finalize(memory, self._returned.append, slot).atexit = False
        return batch

    def _take_back(self) -> None:
        """Frees slots whose batches are neither referenced nor requested any more."""
        while self._returned:
            self._free.append(self._returned.popleft())
            self._lent -= 1
        while self.unwanted:
            pending = self.unwanted.popleft()
            if pending.is_cancelled:
                continue
            pending.is_cancelled = True
            if pending.done is not None:
                self._free.append(pending.slot)
            for process in self._processes:
                if pending.order.number in process.outstanding:
                    self._send(process, Cancel((pending.order.number,)))

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Ends the workers after an exception, which may have truncated a message; later requests start new ones."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    # --- workers ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if not self._processes:
            self._processes += [self._spawn(number) for number in range(self.workers)]

    def _spawn(self, number: int) -> _Process:
        ours, theirs = Channel.pair()
        path = json.dumps([entry or os.getcwd() for entry in sys.path])
        descriptors = theirs.fileno(), self._board.descriptor
        self._now[number] = -1
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))  # the worker unblocks them
        try:
            popen = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, path, *map(str, descriptors), str(number)],
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
                env={**os.environ, **dict.fromkeys(_THREADS, "1")},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        theirs.close()
        self._children.append((popen, ours))
        process = _Process(number, popen, ours)
        for key in self._makers:
            self._introduce(process, key)
        return process

    def _introduce(self, process: _Process, key: int) -> None:
        _, payload, memories = self._makers[key]
        process.makers.add(key)
        self._send(process, Register(key, payload), [memory.descriptor for memory in memories])

    def _give(self, process: _Process, pending: Pending) -> None:
        process.outstanding[pending.order.number] = pending
        if pending.slot.number not in process.slots:
            process.slots.add(pending.slot.number)
            self._send(process, AddSlot(pending.slot.number), [pending.slot.memory.descriptor])
        self._send(process, pending.order)

    def _send(self, process: _Process, message: object, descriptors: list[int] | None = None) -> None:
        with suppress(ConnectionError):  # the worker has died, which `_listen` detects
            process.channel.send(message, descriptors or [])

    def _listen(self, seconds: float | None = None) -> None:
        """Waits for a worker's next answer, at most until the next report about slow batches is due."""
        with selectors.DefaultSelector() as selector:
            for process in self._processes:
                selector.register(process.channel, selectors.EVENT_READ, process)
            ready = selector.select(self.wonder_after if seconds is None else seconds)
        if not ready and seconds is None:
            self._tell(
                f"A batch has been loading for {self.wonder_after:g} s; workers are reading {self._items_now()}."
            )
        for key, _ in ready:
            process = key.data
            try:
                done, _ = process.channel.receive()
            except EOFError:
                self._replace(process)
                continue
            pending = process.outstanding.pop(done.number)
            pending.done = done
            if pending.is_cancelled:
                self._free.append(pending.slot)

    def _replace(self, dead: _Process) -> None:
        """Starts another worker for a dead one and repeats its work."""
        item = self._item_now(dead.number)
        dead.channel.close()
        dead.popen.kill()
        code = dead.popen.wait()
        self._children.remove((dead.popen, dead.channel))
        why = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if self.restarts_left == 0:
            raise TrainerError(
                "data workers die repeatedly",
                where=item,
                found=f"the last by {why}, while reading {item or 'no item'}",
                expected=f"at most {RESTARTS} of them",
                hint=_WHY_KILLED if code == -signal.SIGKILL else "Try data.workers=0 to see the error in this process.",
            ) from (MemoryError() if code == -signal.SIGKILL else None)
        self.restarts_left -= 1
        self.killed += code == -signal.SIGKILL
        self._tell(f"A data worker died ({why}) while reading {item or 'no item'}; another one repeats its work.")
        process = self._processes[self._processes.index(dead)] = self._spawn(dead.number)
        for pending in dead.outstanding.values():
            if pending.is_cancelled:
                self._free.append(pending.slot)
            else:
                self._give(process, pending)

    def _item_now(self, number: int) -> str | None:
        key, index = self._now[number].tolist()
        return self._makers[key][0].dataset.source(index) if index >= 0 and key in self._makers else None

    def _items_now(self) -> str:
        return ", ".join(filter(None, map(self._item_now, range(self.workers)))) or "no item"

    def _tell(self, what: str) -> None:
        if self.tell is not None:
            self.tell(what)

    # --- slots --------------------------------------------------------------------------------------------------------

    def _new_slot(self) -> Slot:
        self._slots.append(Slot(len(self._slots)))
        return self._slots[-1]

    def close(self) -> None:
        """Ends the workers; later requests start new ones. Returned batches stay valid."""
        with self._lock:
            for process in self._processes:
                for pending in process.outstanding.values():
                    pending.is_cancelled = True
                    self._free.append(pending.slot)
            self._processes.clear()
            _end(self._children)


def _end(children: list[tuple[subprocess.Popen[bytes], Channel]]) -> None:
    """Ends processes; a separate function, so that a finalizer does not keep the pool alive."""
    for popen, channel in children:
        popen.kill()  # they have no state to save
        channel.close()
    for popen, _ in children:
        popen.wait()
    children.clear()


def _error(failure: Failure) -> Exception:
    """The exception for a worker's failure."""
    if failure.kind == "failure":
        return WorkerFailure(f"{failure.text}\n\nIn a data worker:\n{failure.traceback}")
    fields = dict(failure.fields)
    error = TrainerError(
        fields["message"] or "", where=fields["where"], found=fields["found"], expected=fields["expected"],
        hint=fields["hint"],
    )  # fmt: skip
    error.add_note(f"In a data worker:\n{failure.traceback}")
    return error if failure.unusable is None else UnusableItem(failure.unusable, error)


_WHY_KILLED = "The system kills processes when memory runs out: lower data.workers, data.prefetch or data.cache_gb."
