"""Loaded kernels: compiled (or read from the cache on disk) when a program first needs them, and linked together.

The memory of loaded code is bounded: the least recently needed kernels are dropped, and unloaded once no program holds
them.
"""

from __future__ import annotations

import hashlib
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from trainer.engine.program.work import KernelSource
from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import identity, native
from trainer.engine.targets.cpu.lowering.launch import Launch
from trainer.engine.targets.cpu.pool import available_threads

Progress = Callable[[int, int, str], None]
"""Called with (number of kernels done, total number, label of the kernel that is compiled now)."""

LARGEST_BYTES = 128 << 20

Item = TypeVar("Item")
Done = TypeVar("Done")

SWITCH_SECONDS = 0.0005
"""Switch interval of Python's lock: a thread that returns from LLVM gets the lock this soon while others render."""

NAMED = ".kernel"
"""Suffix of files that map a kernel's digest to its function name and the key of its object."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Loaded code: valid as long as `library` is held."""

    address: int
    library: native.Library
    nbytes: int


class Kernels:
    """Loaded kernels, by the source that they were rendered from."""

    def __init__(self, target: native.Target, largest_bytes: int = LARGEST_BYTES) -> None:
        self.target, self._largest_bytes = target, largest_bytes
        self._loaded: OrderedDict[KernelSource, Kernel] = OrderedDict()
        self.nbytes = 0
        """Total size of the kernels' object code."""

    def of(self, launches: Sequence[Launch], progress: Progress | None = None) -> list[Kernel]:
        """Returns the kernel of each launch; for a repeat, those of its body."""
        launches = [each for launch in launches for each in launch.coded()]
        missing = {launch.source: launch.label for launch in launches if launch.source not in self._loaded}
        codes: dict[KernelSource, tuple[str, bytes]] = {}

        def announce(label: str) -> None:
            if progress is not None:
                progress(len(codes), len(missing), label)

        for source, label in missing.items():
            if (cached := self._cached(source)) is not None:
                announce(label)
                codes[source] = cached
        absent = [source for source in missing if source not in codes]
        compiled = side_by_side(self._compiled, absent)
        for source in absent:
            announce(missing[source])
            codes[source] = next(compiled)
        self._load({source: name for source, (name, _) in codes.items()}, dict(codes.values()))
        announce("")
        found = [self._loaded[launch.source] for launch in launches]
        for launch in launches:
            self._loaded.move_to_end(launch.source)
        self._forget()
        return found

    def _cached(self, source: KernelSource) -> tuple[str, bytes] | None:
        """Returns the exported name and the code of a kernel from the cache on disk (no rendering needed), or None."""
        key = identity.digest(source.key, self.target.key)
        note = disk_cache.kept(key, NAMED) if key else None
        if note is None:
            return None
        name, object_key = note.decode().split()
        code = native.cached_object(object_key)
        return None if code is None else (name, code)

    def _compiled(self, source: KernelSource) -> tuple[str, bytes]:
        """Renders and compiles a kernel; returns its exported name and its code."""
        name, ir = rendered(source)
        code = native.compile_object(ir, self.target)
        if key := identity.digest(source.key, self.target.key):
            disk_cache.keep(key, f"{name} {native.object_key(ir, self.target)}".encode(), NAMED)
        return name, code

    def add(self, source: KernelSource, name: str, code: bytes) -> Kernel:
        """Loads a kernel that another process has compiled; `code` exports `name`."""
        if source not in self._loaded:
            self._load({source: name}, {name: code})
        kernel = self._loaded[source]
        self._forget()
        return kernel

    def _load(self, names: Mapping[KernelSource, str], objects: Mapping[str, bytes]) -> None:
        if not objects:
            return
        library = native.link(objects)
        for source, name in names.items():
            self._loaded[source] = Kernel(library[name], library, len(objects[name]))
            self.nbytes += len(objects[name])

    def _forget(self) -> None:
        while self.nbytes > self._largest_bytes and self._loaded:
            self.nbytes -= self._loaded.popitem(last=False)[1].nbytes


def rendered(source: KernelSource) -> tuple[str, str]:
    """Returns the name of a kernel's function, which is a hash of its IR, and the IR."""
    ir = source.render("kernel")
    name = "k" + hashlib.sha256(ir.encode()).hexdigest()[:24]
    return name, ir.replace("@kernel(", f"@{name}(")


def side_by_side(work: Callable[[Item], Done], items: Sequence[Item]) -> Iterator[Done]:
    """Yields `work` of each item, in order, on all threads that this process may use; LLVM runs without the GIL."""
    threads = min(available_threads(), len(items))
    if threads < 2:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(work, items)
    finally:
        sys.setswitchinterval(before)
