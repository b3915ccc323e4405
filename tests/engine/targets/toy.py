"""A toy target: an asynchronous device with a thread and memory of its own, in which NumPy computes items of work.

The thread holds back the last run until another one is submitted or something waits for it, so what is read without
waiting is NaN, every time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.engine.program.interpreter import Interpreted, Interpreter
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.targets import DONE, Fence, Run


@dataclass(eq=False)
class Point(Fence):
    """A point in the order of work; `failure` is what the work up to here failed of."""

    memory: ToyMemory
    number: int
    is_done: bool = False
    failure: BaseException | None = None

    @property
    def is_ready(self) -> bool:
        return self.is_done

    def wait(self) -> None:
        self.memory.wait_for(self)


@dataclass(eq=False)
class Block:
    """Elements that only the device's thread may look at before `fence` is over."""

    elements: np.ndarray
    fence: Fence = DONE


class ToyMemory:
    """Blocks, and the thread that works on them in order. Nothing works on after a failure."""

    name = "toy"

    def __init__(self) -> None:
        self._queue: deque[tuple[Point, Callable[[], None]]] = deque()
        self._changed = threading.Condition()
        self._submitted = self._released = self._last_run = 0
        self.waits = 0
        """How often something has waited for the last run that was submitted."""
        self._failure: BaseException | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="toy", daemon=True)
        self._thread.start()

    def allocate(self, size: int, dtype: DType) -> Block:
        nbytes = max(1, size) * dtype.itemsize
        return Block(np.full(nbytes, 0xFF, np.uint8).view(dtype.storage))

    def upload(self, block: Block, values: np.ndarray) -> None:
        own = values.copy()
        self.submit(lambda: np.copyto(block.elements[: own.size], own), block)

    def download(self, block: Block) -> np.ndarray:
        block.fence.wait()
        return block.elements.copy()

    def copy(self, block: Block) -> Block:
        copy = Block(np.full(block.elements.nbytes, 0xFF, np.uint8).view(block.elements.dtype))
        self.submit(lambda: np.copyto(copy.elements, block.elements), copy)
        return copy

    def fetch(self, block: Block) -> None:
        pass

    def is_ready(self, block: Block) -> bool:
        return block.fence.is_ready

    def submit(self, work: Callable[[], None], *written: Block, is_run: bool = False) -> Point:
        """Have the thread do `work`, which writes to these blocks, after what was submitted before."""
        with self._changed:
            if is_run:
                self._released = self._submitted
                self._last_run = self._submitted + 1
            self._submitted += 1
            fence = Point(self, self._submitted)
            for block in written:
                block.fence = fence
            self._queue.append((fence, work))
            self._changed.notify_all()
        return fence

    def wait_for(self, fence: Point) -> None:
        """Wait for the work up to a fence, and raise what it failed of."""
        assert threading.current_thread() is not self._thread
        with self._changed:
            self.waits += fence.number >= self._last_run and not fence.is_done
            self._released = max(self._released, fence.number)
            self._changed.notify_all()
            self._changed.wait_for(lambda: fence.is_done)
        if fence.failure is not None:
            raise fence.failure

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _has_work(self) -> bool:
        return self._is_closed or bool(self._queue and self._queue[0][0].number <= self._released)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._is_closed:
                    return
                fence, work = self._queue.popleft()
            try:
                if self._failure is None:
                    work()
            except BaseException as error:
                self._failure = error
            with self._changed:
                fence.failure, fence.is_done = self._failure, True
                self._changed.notify_all()


class ToyDevice(Interpreter):
    """The device, and the target of its programs."""

    name = "toy"
    is_asynchronous = True

    def __init__(self) -> None:
        super().__init__(has_prologues=True)
        self.memory: ToyMemory = ToyMemory()

    def compile(
        self,
        results: Sequence[Node],
        updates: Sequence[tuple[Storage, Node]] = (),
        inputs: Sequence[Node] = (),
        *,
        flush: bool = False,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> ToyProgram:
        return ToyProgram(self.memory, super().compile(results, updates, inputs, flush=flush, progress=progress))


class ToyProgram:
    """A program whose runs are done by the device's thread."""

    def __init__(self, memory: ToyMemory, program: Interpreted) -> None:
        self._memory, self._program = memory, program

    def run(self, storages: Sequence[Storage]) -> Run:
        memory, program = self._memory, self._program
        given = dict(zip(program.inputs, storages, strict=True))
        blocks: dict[Storage, Block] = {}
        written = program.storages(written=True)
        for storage in (*program.inputs, *program.storages(written=False), *written):
            actual = given.get(storage, storage)
            actual.move(memory)
            blocks[storage] = actual.block
        results, targets = Run(), []
        for buffer, shape in zip(program.program.results, program.shapes, strict=True):
            storage = Storage(shape, buffer.dtype)
            storage.put(memory.allocate(buffer.size, buffer.dtype), Layout.row_major(len(shape)), memory)
            results.append(storage)
            targets.append(storage.block)

        def work() -> None:
            values, updates = program.compute(lambda storage: blocks[storage].elements)
            for block, array in zip(targets, values, strict=True):
                np.copyto(block.elements[: array.size], array.reshape(-1))
            for storage, elements in updates.items():
                np.copyto(blocks[storage].elements[: elements.size], elements)

        results.fence = memory.submit(work, *targets, *(blocks[storage] for storage in written), is_run=True)
        return results
