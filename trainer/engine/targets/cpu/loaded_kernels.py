"""The kernels that are loaded: compiled (or read from the cache on disk) when a program first needs them, linked at
once.

The memory of loaded code is bounded: what no program has needed for longest is forgotten, and unloaded once no program
holds it.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trainer.engine.program.work import KernelSource
from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import identity, native
from trainer.engine.targets.cpu.lowering.launch import Launch

Progress = Callable[[int, int, str], None]
"""Called with (kernels done, kernels in all, what is compiled now)."""

LARGEST_BYTES = 128 << 20

NAMED = ".kernel"
"""Files that say for a kernel's digest under which name and in which object it was compiled."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Loaded code: valid as long as `library` is held."""

    address: int
    library: native.Library
    nbytes: int


class Kernels:
    """Loaded kernels by what they were rendered from."""

    def __init__(self, target: native.Target, largest_bytes: int = LARGEST_BYTES) -> None:
        self.target, self._largest_bytes = target, largest_bytes
        self._loaded: OrderedDict[KernelSource, Kernel] = OrderedDict()
        self.nbytes = 0
        """Object code of the kernels that are remembered."""

    def of(self, launches: Sequence[Launch], progress: Progress | None = None) -> list[Kernel]:
        """The kernel of each launch; of a repeat those of its body instead."""
        launches = [each for launch in launches for each in launch.coded()]
        missing = {launch.source: launch.label for launch in launches if launch.source not in self._loaded}
        objects: dict[str, bytes] = {}
        names: dict[KernelSource, str] = {}
        for done, (source, label) in enumerate(missing.items()):
            if progress is not None:
                progress(done, len(missing), label)
            names[source], code = self._code_of(source)
            objects[names[source]] = code
        self._load(names, objects)
        if progress is not None:
            progress(len(missing), len(missing), "")
        found = [self._loaded[launch.source] for launch in launches]
        for launch in launches:
            self._loaded.move_to_end(launch.source)
        self._forget()
        return found

    def _code_of(self, source: KernelSource) -> tuple[str, bytes]:
        """The name that a kernel's code exports and the code: rendering it is what the cache on disk saves first."""
        key = identity.digest(source.key, self.target.key)
        note = disk_cache.kept(key, NAMED) if key else None
        if note is not None:
            name, object_key = note.decode().split()
            code = native.cached_object(object_key)
            if code is not None:
                return name, code
        name, ir = rendered(source)
        code = native.compile_object(ir, self.target)
        if key:
            disk_cache.keep(key, f"{name} {native.object_key(ir, self.target)}".encode(), NAMED)
        return name, code

    def add(self, source: KernelSource, name: str, code: bytes) -> Kernel:
        """A kernel that another process has compiled: `code` exports `name`."""
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
    """The name of a kernel's function, which its code decides, and its IR."""
    ir = source.render("kernel")
    name = "k" + hashlib.sha256(ir.encode()).hexdigest()[:24]
    return name, ir.replace("@kernel(", f"@{name}(")
