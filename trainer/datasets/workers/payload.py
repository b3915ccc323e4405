"""Sends an object to other processes: pickled, with its arrays in shared memory that all workers map.

The arrays of a data set thus exist only once. A worker that writes to one gets a copy of the page.
"""

from __future__ import annotations

import io
import pickle
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.datasets.workers.memory import Memory

_ALIGNMENT = 64
_MAIN, _MAIN_AGAIN = "__main__", "__mp_main__"


@dataclass(frozen=True, slots=True)
class Payload:
    """The input of `load`, together with `memories`, which are sent as descriptors.

    Args:
        pickled: the object without its arrays.
        spans: (first byte, bytes) of each array in the first of the memories.
        packages: packages created at run time that can't be found on the path: their names and folders.
        main: the file of the program, if the object refers to its definitions.
    """

    pickled: bytes
    spans: tuple[tuple[int, int], ...]
    packages: dict[str, list[str]]
    main: str | None


def dump(value: object, what: str) -> tuple[Payload, list[Memory]]:
    """Packs `value`, which has the name `what` in messages.

    Raises:
        TrainerError: it can't be pickled, or has a class that other processes can't import.
    """
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    pickler = _Pickler(stream, protocol=5, buffer_callback=buffers.append)
    try:
        pickler.dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
        raise TrainerError(
            f"{what} can't be sent to worker processes",
            found=error,
            hint="Define its classes and functions at the top of a module, open files in __getitem__ and not before, "
            "or set data.worker_kind=thread.",
        ) from error
    views = [buffer.raw() for buffer in buffers]
    spans, end = [], 0
    for view in views:
        spans.append((end, view.nbytes))
        end += -(-view.nbytes // _ALIGNMENT) * _ALIGNMENT
    memories = list(pickler.memories)
    if end:
        shared = Memory.create(end, "data")
        mapped = shared.map()
        for (first, count), view in zip(spans, views, strict=True):
            mapped[first : first + count] = np.frombuffer(view, np.uint8)
        memories.insert(0, shared)
    packages, main = _imports(pickler.modules, what)
    return Payload(stream.getvalue(), tuple(spans), packages, main), memories


def load(payload: Payload, descriptors: Sequence[int]) -> Any:
    """The packed object. Takes ownership of the descriptors."""
    for name, folders in payload.packages.items():
        if name not in sys.modules:
            package = ModuleType(name)
            package.__path__ = folders
            sys.modules[name] = package
    if payload.main is not None and _MAIN_AGAIN not in sys.modules:
        _run_main_again(payload.main)
    memories = [Memory(descriptor) for descriptor in descriptors]
    buffers: list[np.ndarray] = []
    if payload.spans and sum(count for _, count in payload.spans):
        mapped = memories.pop(0).map_copy()
        buffers = [mapped[first : first + count] for first, count in payload.spans]
    else:
        buffers = [np.empty(0, np.uint8) for _ in payload.spans]
    return _Unpickler(io.BytesIO(payload.pickled), buffers, memories).load()


class _Pickler(pickle.Pickler):
    """Records referenced modules, and sends shared memory as descriptors."""

    def __init__(self, stream: io.BytesIO, **options: Any) -> None:
        super().__init__(stream, **options)
        self.modules: set[str] = set()
        self.memories: list[Memory] = []

    def reducer_override(self, value: Any) -> Any:
        module = getattr(value, "__module__", None)
        if isinstance(module, str) and hasattr(value, "__qualname__"):
            self.modules.add(module)
        return NotImplemented

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, Memory):
            return None
        if value not in self.memories:
            self.memories.append(value)
        return self.memories.index(value)


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, buffers: Sequence[np.ndarray], memories: Sequence[Memory]) -> None:
        super().__init__(stream, buffers=buffers)
        self._memories = memories

    def persistent_load(self, number: int) -> Memory:
        return self._memories[number]


def _imports(modules: set[str], what: str) -> tuple[dict[str, list[str]], str | None]:
    """The packages created at run time among `modules`, and the program's file if it is one of them."""
    packages: dict[str, list[str]] = {}
    for module in modules:
        name = module.partition(".")[0]
        package = sys.modules.get(name)
        if package is not None and package.__spec__ is None and hasattr(package, "__path__"):
            packages[name] = list(package.__path__)
    if _MAIN not in modules:
        return packages, None
    main = getattr(sys.modules[_MAIN], "__file__", None)
    if main is None:
        raise TrainerError(
            f"{what} can't be sent to worker processes",
            found="a class or function defined in a notebook or at the prompt",
            expected="one in a file that can be imported",
            hint="Move it to a file and import it, or set data.worker_kind=thread.",
        )
    return packages, main


def _run_main_again(file: str) -> None:
    """Loads the program of the sending process as `__main__`, without running its main code."""
    again = ModuleType(_MAIN_AGAIN)
    sys.modules[_MAIN] = sys.modules[_MAIN_AGAIN] = again
    vars(again).update(runpy.run_path(file, run_name=_MAIN_AGAIN))
