"""A recording driver: an object with the interface of `cupy.cuda` that executes kernels in the emulator, or not at all.

Work that a stream is given waits until something synchronizes with it, so what is read too early is found as it was
before. What each stream and the host know to have ended (a vector clock) shows accesses without an order:

- two streams, or a stream and memory that was let go and taken again, touch the same bytes, at least one writes, and no
  event is between them;
- work uses an address that is not allocated, or a graph one that has been let go since it was captured;
- the host changes pinned memory, or lets it go, before the copy from it, or to it, has ended.

Reading memory that nothing has written is an error of the emulator, for kernels, and of `download` here, for copies.
An error of the order is a `Disorder`. `fail` makes a call fail with an error of CUDA.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.engine.targets.ptx.emulator.launch import Buffer, launch
from trainer.engine.targets import cuda as device_package

PACKAGE = str(Path(device_package.__file__).parent)
UNIT = 512
"""Sizes of memory are multiples of this, as in CuPy's pool."""

FIRST_ADDRESS = 0x7F00_0000_0000
MESSAGES = {
    2: "cudaErrorMemoryAllocation: out of memory",
    35: "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
    46: "cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable",
    100: "cudaErrorNoDevice: no CUDA-capable device is detected",
    222: "cudaErrorUnsupportedPtxVersion: the provided PTX was compiled with an unsupported toolchain.",
    700: "cudaErrorIllegalAddress: an illegal memory access was encountered",
    702: "cudaErrorLaunchTimeout: the launch timed out and was terminated",
}
STICKY = (46, 700, 702)
"""Errors after which every call fails."""


class Disorder(AssertionError):
    """Accesses to memory without an order, or to memory that is not allocated."""


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(MESSAGES[status])


class CUDADriverError(CUDARuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    def __init__(self, size: int, total: int) -> None:
        super().__init__(f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes).")


Clock = dict[int, int]
"""By stream, how many of its pieces of work are over."""


@dataclass(eq=False)
class Access:
    """Bytes from `start` to `stop` that piece `number` of a stream touches."""

    start: int
    stop: int
    writes: bool
    stream: int
    number: int
    what: str


@dataclass(eq=False)
class Chunk:
    """A place in memory: who has touched it, whatever it was taken for."""

    address: int
    nbytes: int
    accesses: list[Access] = field(default_factory=list)


@dataclass(eq=False)
class Tenancy:
    """The content of a chunk from when it is taken until it is let go."""

    chunk: Chunk
    data: np.ndarray
    is_written: np.ndarray


@dataclass(eq=False)
class Work:
    """A piece of work of a stream. `execute` does it; `earlier` are pieces of other streams that it waits for."""

    name: str
    execute: Callable[[], None] | None
    clock: Clock


class Pinned(np.ndarray):
    """Pinned memory of the host: a buffer with an address."""

    @property
    def ptr(self) -> int:
        return self.ctypes.data


class Recorder:
    """The interface of `cupy.cuda`, for one process.

    With `executes` the emulator executes kernels, else they do nothing. `name`, `capability` and `memory` are the
    GPU's, of which there are `gpus`; `driver` is the version of CUDA. `calls` are the names of all calls and the site
    of each: the lines of the device's code that lead to it, the innermost first.
    """

    def __init__(
        self, *, executes: bool = True, gpus: int = 1, capability: tuple[int, int] = (9, 0), driver: int = 12040,
        memory: int = 1 << 40, name: str = "emulated GPU",
    ) -> None:  # fmt: skip
        self.executes, self.gpus, self.limit = executes, gpus, memory
        self.calls: list[tuple[str, str]] = []
        self.launches = 0
        """Launches of graphs."""
        self.kernels = 0
        """Kernels that have been given to a stream, in a graph or alone."""
        self.checked: set[Any] = set()
        """Launches in which no races were found."""
        self.executed = 0
        """Kernels that are over."""
        self.used = 0
        self.waits: list[str] = []
        """What the host has waited for while it was not over."""
        self.known: Clock = {}
        self._pinned: dict[int, weakref.ref[Pinned]] = {}
        self._streams: list[weakref.ref[Stream]] = []
        self._tenancies: dict[int, weakref.ref[MemoryPointer]] = {}
        self._free: dict[int, list[Chunk]] = {}
        self._addresses = count(FIRST_ADDRESS, 1 << 36)
        self._failing: tuple[str, int] | None = None
        self._failed: int | None = None
        properties = {"name": name.encode(), "major": capability[0], "minor": capability[1], "totalGlobalMem": memory}
        self.runtime = SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError, memcpyHostToDevice=1, memcpyDeviceToHost=2, memcpyDeviceToDevice=3,
            memcpyAsync=self._copy, driverGetVersion=lambda: driver if gpus else 0, getDeviceCount=self._count,
            getDeviceProperties=lambda index: self._answer("getDeviceProperties", properties),
        )  # fmt: skip
        self.driver = SimpleNamespace(CUDADriverError=CUDADriverError, funcSetAttribute=self._set_attribute)
        self.functions: weakref.WeakValueDictionary[int, Function] = weakref.WeakValueDictionary()
        self.memory = SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
        self.function = SimpleNamespace(Module=lambda: Module(self))
        self.nccl: Any = SimpleNamespace(available=False)

    # What a device calls

    @contextmanager
    def Device(self, index: int) -> Iterator[None]:
        assert index < self.gpus
        yield

    def Stream(self, *, non_blocking: bool) -> Stream:
        assert non_blocking, "streams must not wait for the null stream"
        self.call("Stream")
        stream = Stream(self, len(self._streams) + 1)
        self._streams.append(weakref.ref(stream))
        return stream

    def Event(self, *, disable_timing: bool) -> Event:
        assert disable_timing, "events with times cost more"
        self.call("Event")
        return Event(self)

    def MemoryPool(self) -> MemoryPool:
        self.call("MemoryPool")
        return MemoryPool(self)

    def alloc_pinned_memory(self, size: int) -> Pinned:
        self.call("alloc_pinned_memory")
        pinned = np.zeros(size, np.uint8).view(Pinned)
        self._pinned[pinned.ptr] = weakref.ref(pinned)
        return pinned

    def _count(self) -> int:
        if not self.gpus:
            raise CUDARuntimeError(100)
        return self._answer("getDeviceCount", self.gpus)

    def _set_attribute(self, function: int, attribute: int, value: int) -> None:
        self.call("funcSetAttribute")
        assert attribute == 8 and 48 << 10 < value <= 99 << 10, "all GPUs since Ampere have this much for a block"
        self.functions[function].most_shared = value

    def _answer(self, name: str, value: Any) -> Any:
        self.call(name)
        return value

    def _copy(self, target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        self.call("memcpyAsync")
        own = self.stream(stream)
        assert nbytes > 0
        if kind == self.runtime.memcpyHostToDevice:
            place, start = self.find(target, nbytes)
            host = self._host(source, nbytes)
            before = host().copy()

            def upload() -> None:
                if not (host() == before).all():
                    raise Disorder("pinned memory was changed before the copy from it had ended")
                place.data[start : start + nbytes], place.is_written[start : start + nbytes] = before, True

            own.give("a copy to the GPU", upload, [(place, start, nbytes, True)])
        elif kind == self.runtime.memcpyDeviceToHost:
            place, start = self.find(source, nbytes)
            host = self._host(target, nbytes)
            host()[:] = 0xFF

            def download() -> None:
                host()[:] = place.data[start : start + nbytes]

            own.give("a copy to the host", download, [(place, start, nbytes, False)])
        else:
            (place, start), (to, where) = self.find(source, nbytes), self.find(target, nbytes)

            def move() -> None:
                to.data[where : where + nbytes] = place.data[start : start + nbytes]
                to.is_written[where : where + nbytes] = place.is_written[start : start + nbytes]

            own.give("a copy on the GPU", move, [(place, start, nbytes, False), (to, where, nbytes, True)])

    def _host(self, address: int, nbytes: int) -> Callable[[], np.ndarray]:
        """Bytes of pinned memory, as long as something else keeps it."""
        self._pinned = {ptr: owner for ptr, owner in self._pinned.items() if owner() is not None}
        found = [
            (owner, address - ptr) for ptr, owner in self._pinned.items() if 0 <= address - ptr <= _size(owner) - nbytes
        ]
        if not found:
            raise Disorder("memory of the host that is not pinned is copied")
        owner, start = found[0]

        def part() -> np.ndarray:
            pinned = owner()
            if pinned is None:
                raise Disorder("pinned memory was let go before the copy had ended")
            return np.asarray(pinned)[start : start + nbytes]

        return part

    # Failing

    def fail(self, site: str, status: int) -> None:
        """The next call from this site fails; of errors that stay, all later calls, too."""
        self._failing = (site, status)

    def call(self, name: str) -> None:
        """Note a call; fails it where that was asked for."""
        lines, frame = [], sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename.startswith(PACKAGE):
                lines.append(f"{frame.f_code.co_filename[len(PACKAGE) + 1 :]}:{frame.f_lineno}")
            frame = frame.f_back
        site = " ".join(lines)
        self.calls.append((name, site))
        if self._failing is not None and self._failing[0] == site:
            status, self._failing = self._failing[1], None
            if status in STICKY:
                self._failed = status
            if status == 2 and name == "malloc":
                raise OutOfMemoryError(0, self.used)
            raise CUDADriverError(status) if name in ("load", "launch a kernel") else CUDARuntimeError(status)
        if self._failed is not None:
            raise CUDARuntimeError(self._failed)

    # Memory

    def take(self, size: int) -> MemoryPointer:
        nbytes = -(-size // UNIT) * UNIT
        if self.used + nbytes > self.limit:
            raise OutOfMemoryError(nbytes, self.used)
        free = self._free.get(nbytes)
        chunk = free.pop() if free else Chunk(next(self._addresses), nbytes)
        self.used += nbytes
        content = np.full(nbytes, 0xFF if self.executes else 0, np.uint8)
        tenancy = Tenancy(chunk, content, np.full(nbytes, not self.executes))
        pointer = MemoryPointer(chunk.address, tenancy)
        self._tenancies[chunk.address] = weakref.ref(pointer)
        weakref.finalize(pointer, self._let_go, chunk).atexit = False
        return pointer

    def _let_go(self, chunk: Chunk) -> None:
        self.used -= chunk.nbytes
        del self._tenancies[chunk.address]
        self._free.setdefault(chunk.nbytes, []).append(chunk)

    def find(self, address: int, nbytes: int = 1) -> tuple[Tenancy, int]:
        """What has the memory at an address now, and where in it that is."""
        base = address - (address - FIRST_ADDRESS) % (1 << 36)
        found = self._tenancies.get(base)
        pointer = None if found is None else found()
        if pointer is None or address - base + nbytes > pointer.tenancy.chunk.nbytes:
            raise Disorder(f"{nbytes} bytes at {address:#x} are used, which are not allocated")
        return pointer.tenancy, address - base

    # Streams

    def stream(self, ptr: int) -> Stream:
        found = self._streams[ptr - 1]()
        assert found is not None, "a stream that was let go is used"
        return found

    def finish(self, clock: Clock, what: str) -> None:
        """The host waits until the work of a clock is over."""
        if any(self.known.get(number, 0) < place for number, place in clock.items()):
            self.waits.append(what)
        for number, place in clock.items():
            self.stream(number).run_to(place)
        self.known = _joined(self.known, clock)


class MemoryPointer:
    def __init__(self, ptr: int, tenancy: Tenancy) -> None:
        self.ptr, self.tenancy = ptr, tenancy


class MemoryPool:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def malloc(self, size: int) -> MemoryPointer:
        self._recorder.call("malloc")
        return self._recorder.take(size)


class Stream:
    """Work in order. It is executed when the host waits for it."""

    def __init__(self, recorder: Recorder, ptr: int) -> None:
        self.recorder, self.ptr = recorder, ptr
        self.clock: Clock = {}
        self.given = self.over = 0
        self._waiting: deque[Work] = deque()
        self._captured: list[Kernel] | None = None

    @property
    def done(self) -> bool:
        return self.over == self.given

    def give(self, what: str, execute: Callable[[], None], touched: Sequence[tuple[Tenancy, int, int, bool]]) -> None:
        """Add work that touches (memory, from, bytes, whether it writes)."""
        if self._captured is not None:
            raise AssertionError(f"{what} can't be captured here")
        self.clock = _joined(self.clock, self.recorder.known)
        self.given += 1
        self.clock[self.ptr] = self.given
        for tenancy, start, nbytes, writes in touched:
            self._touch(tenancy.chunk, Access(start, start + nbytes, writes, self.ptr, self.given, what))
        self._waiting.append(Work(what, execute, dict(self.clock)))

    def _touch(self, chunk: Chunk, access: Access) -> None:
        kept = []
        for other in chunk.accesses:
            overlap = other.start < access.stop and access.start < other.stop
            is_before = self.clock.get(other.stream, 0) >= other.number
            if overlap and not is_before and (other.writes or access.writes):
                raise Disorder(f"{access.what} and {other.what} of another stream touch the same memory in no order")
            covered = access.start <= other.start and other.stop <= access.stop
            if not (covered and is_before and (access.writes or not other.writes)):
                kept.append(other)
        chunk.accesses = [*kept, access]

    def run_to(self, place: int) -> None:
        """Execute the work up to this number, and what it waits for."""
        while self.over < place:
            work = self._waiting.popleft()
            self.over += 1
            for number, other in work.clock.items():
                if number != self.ptr:
                    self.recorder.stream(number).run_to(other)
            if work.execute is not None:
                work.execute()

    def wait_event(self, event: Event) -> None:
        self.recorder.call("wait_event")
        assert self._captured is None and event.clock is not None, "an event that nothing has recorded is waited for"
        self.clock = _joined(self.clock, event.clock)

    def begin_capture(self) -> None:
        self.recorder.call("begin_capture")
        assert self._captured is None
        self._captured = []

    def end_capture(self) -> Graph:
        captured, self._captured = self._captured, None
        self.recorder.call("end_capture")
        assert captured is not None
        return Graph(self.recorder, captured)

    def launch(self, kernel: Kernel) -> None:
        if self._captured is not None:
            self._captured.append(kernel)
        else:
            self.give_kernels("a kernel", [kernel])

    def give_kernels(self, what: str, kernels: Sequence[Kernel]) -> None:
        """Add kernels as one piece of work; each may write to all the memory that it is given."""
        self.recorder.kernels += len(kernels)
        places = {id(tenancy): tenancy for kernel in kernels for tenancy, _ in kernel.memory.values()}
        touched = [(tenancy, 0, tenancy.chunk.nbytes, True) for tenancy in places.values()]

        def execute() -> None:
            self.recorder.executed += len(kernels)
            if self.recorder.executes:
                for kernel in kernels:
                    kernel.execute(self.recorder.checked)

        self.give(what, execute, touched)


class Event:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.clock: Clock | None = None
        self._name = ""

    @property
    def done(self) -> bool:
        clock = self.clock or {}
        return all(self._recorder.stream(number).over >= place for number, place in clock.items())

    def record(self, stream: Stream) -> None:
        self._recorder.call("record")
        self.clock = _joined(stream.clock, self._recorder.known)
        self._name = f"event after {stream.given} pieces of work of stream {stream.ptr}"

    def synchronize(self) -> None:
        self._recorder.call("synchronize")
        assert self.clock is not None
        self._recorder.finish(self.clock, self._name)


@dataclass
class Kernel:
    """A kernel with its arguments: memory by the number of its parameter, numbers otherwise."""

    text: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    words: list[int]
    memory: dict[int, tuple[Tenancy, int]]
    shared: int

    def execute(self, checked: set[Any]) -> None:
        """Run it in the emulator, which looks for races in the first of equal launches only."""
        key = (self.text, self.grid, self.block, tuple(self.words))
        arguments: list[Any] = list(self.words)
        for number, (tenancy, start) in self.memory.items():
            arguments[number] = Buffer(tenancy.data, tenancy.is_written, True, start)
        launch(self.text, self.grid, self.block, arguments, shared_bytes=self.shared, checks_races=key not in checked)
        checked.add(key)


class Module:
    """A module of PTX with one kernel."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._text = ""

    def load(self, cubin: bytes) -> None:
        assert type(cubin) is bytes
        self._recorder.call("load")
        self._text = cubin.decode()

    def get_function(self, name: str) -> Function:
        self._recorder.call("get_function")
        assert f".entry {name}(" in self._text
        return Function(self._recorder, self._text)


class Function:
    def __init__(self, recorder: Recorder, text: str) -> None:
        self._recorder, self._text = recorder, text
        head = text[text.index(".entry") : text.index("{", text.index(".entry"))]
        parameters = [line for line in head.splitlines() if ".param" in line]
        assert all(".u64" in line for line in parameters)
        self._is_pointer = [".ptr" in line for line in parameters]
        self.ptr = id(self)
        self.most_shared = 48 << 10
        recorder.functions[self.ptr] = self

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[np.ndarray], shared_mem: int, stream: Stream
    ) -> None:
        self._recorder.call("launch a kernel")
        assert shared_mem <= self.most_shared and bool(shared_mem) == (".extern .shared" in self._text)
        assert len(args) == len(self._is_pointer) and all(each.nbytes == 8 for each in args)
        assert grid[0] > 0
        words = [int(each[0]) for each in args]
        memory = {
            number: self._recorder.find(words[number]) for number, pointer in enumerate(self._is_pointer) if pointer
        }
        stream.launch(Kernel(self._text, grid, block, words, memory, shared_mem))


class Graph:
    """Captured kernels."""

    def __init__(self, recorder: Recorder, kernels: list[Kernel]) -> None:
        self._recorder, self._kernels = recorder, kernels
        self._chunks = {id(place): place.chunk for kernel in kernels for place, _ in kernel.memory.values()}
        self._owners = [weakref.ref(place) for kernel in kernels for place, _ in kernel.memory.values()]
        for kernel in kernels:  # a graph keeps no memory
            kernel.memory = {number: (weakref.proxy(place), start) for number, (place, start) in kernel.memory.items()}

    def upload(self, stream: Stream) -> None:
        self._recorder.call("upload")

    def launch(self, stream: Stream) -> None:
        self._recorder.call("launch a graph")
        if any(owner() is None for owner in self._owners):
            raise Disorder("a graph uses memory that was let go after it was captured")
        self._recorder.launches += 1
        kernels = []
        for kernel in self._kernels:
            memory = {number: self._recorder.find(kernel.words[number]) for number in kernel.memory}
            kernels.append(replace(kernel, memory=memory))
        stream.give_kernels("a graph", kernels)


def _size(owner: weakref.ref[Pinned]) -> int:
    pinned = owner()
    return 0 if pinned is None else pinned.size


def _joined(first: Clock, second: Clock) -> Clock:
    return {number: max(first.get(number, 0), second.get(number, 0)) for number in {*first, *second}}
