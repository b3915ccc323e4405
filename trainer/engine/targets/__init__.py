"""The devices that evaluate graphs: `cpu` and `cuda` (compiled) and `reference` (NumPy, for tests)."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from trainer import TrainerError
from trainer.engine.graph import lines
from trainer.engine.graph.errors import refusal, user_line
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import HOST, Memory, Storage

lock = threading.RLock()
"""Held by one thread at a time while it computes or copies values, updates states, or drops histories."""

if hasattr(os, "register_at_fork"):
    # a forked child has none of the other threads: the lock is free in it, and no computation is half done
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


class DeviceFailure(TrainerError):
    """A device can't continue computing; everything saved before is intact."""


class DeviceMemoryError(DeviceFailure, MemoryError):
    """A device's memory is full."""


class Fence:
    """The end of a run of a program. This class is for runs that have ended; an asynchronous device has its own."""

    @property
    def is_ready(self) -> bool:
        """Whether the run has ended."""
        return True

    def wait(self) -> None:
        """Waits until the run has ended. Raises the run's error."""


DONE = Fence()


class Run(list[Storage]):
    """The handle of a run: the storages of its results, and the fence at its end.

    Reading a run's results, and the states that it updates, waits for the run and raises its error.
    """

    fence: Fence = DONE


class Device(Protocol):
    """Evaluates graphs. Inputs are moved to its memory, where results are stored.

    An asynchronous device may compute later, in the order of requests; reading waits for it. Its errors are raised on
    reading, and name the line that created the operation.
    """

    name: str
    memory: Memory = HOST
    is_asynchronous: bool = False
    has_host_functions: bool = True
    """Whether a program may call functions on the host."""

    def evaluate(self, nodes: Sequence[Node]) -> Run:
        """Returns the values of `nodes`, in memory of their own."""

    def compile(
        self, results: Sequence[Node], updates: Sequence[tuple[Storage, Node]] = (), inputs: Sequence[Node] = (), *,
        flush: bool = False, progress: Callable[[int, int, str], None] | None = None, shards: int | None = None,
        split: Collection[Storage] = (),
    ) -> Any:  # fmt: skip
        """Compiles a program: `run(storages of inputs)` returns a `Run` with `results` and stores `updates` in place.

        With `shards`, the graph is that of one shard of a batch, and the program computes this many shards. `split` are
        the storages of inputs that hold all shards, one after the other; so do results that depend on them.
        """

    def exchange(self, messages: Any) -> Any:
        """Returns the `sharding.Exchange` with other processes' devices: `messages` itself if memory is the host's.

        Raises:
            TrainerError: the devices can't exchange values.
        """
        return messages

    def problem_of(self, source: str, name: str, pointers: int) -> str | None:
        """Returns the reason why LLVM IR has no function `name` of `pointers` pointers and a number, or None."""
        return None


# name -> (module, class): imported on first use, since imports take long
_CLASSES = {
    "cpu": ("trainer.engine.targets.cpu.device", "CpuDevice"),
    "cuda": ("trainer.engine.targets.cuda.device", "CudaDevice"),
    "reference": ("trainer.engine.targets.reference", "ReferenceDevice"),
}
_devices: dict[str, Device] = {}
_default: str | Device = "cpu"
_override: ContextVar[Device | None] = ContextVar("device", default=None)


_per_item: ContextVar[bool] = ContextVar("per_item", default=False)


@contextmanager
def per_item() -> Iterator[None]:
    """Compiles programs inside the `with` block so that an item's bits do not depend on other items of its batch.

    In the numerics class "exact" this always holds; "fast" otherwise also chooses algorithms by the batch size.
    """
    token = _per_item.set(True)
    try:
        yield
    finally:
        _per_item.reset(token)


is_per_item = _per_item.get
"""Whether a `per_item` block is open."""


def get(name: str | Device) -> Device:
    """Returns the device named `name` (one per name and process); a device is returned unchanged.

    "cuda:1" is GPU number 1, "cuda" is GPU number 0.
    """
    if not isinstance(name, str):
        return name
    found = _devices.get(name)
    if found is None:
        base, colon, number = name.partition(":")
        is_numbered = base == "cuda" and number.isdecimal()
        if base not in _CLASSES or (colon and not is_numbered):
            expected = " or ".join([*sorted(_CLASSES), "cuda:N"])
            raise refusal("device", "unknown device", found=repr(name), expected=expected)
        if is_numbered and name != (usual := f"{base}:{int(number)}" if int(number) else base):
            return get(usual)
        module, kind = _CLASSES[base]
        numbers = [int(number)] if is_numbered else []
        found = _devices[name] = getattr(importlib.import_module(module), kind)(*numbers)
    return found


def current() -> Device:
    """Returns the device that evaluates now: that of the innermost `device(...)`, or the default."""
    return _override.get() or _devices.get(_default) or get(_default)  # type: ignore[arg-type]


def check_host_function(name: str) -> None:
    """Rejects a host function in a traced step whose device can't stop for it.

    Raises:
        TrainerError: the device has no host functions; the message names the calling line and the alternative.
    """
    device = current()
    if not device.has_host_functions:
        raise TrainerError(
            f"{name} is a function on the host, for which a step on `device: {device.name}` cannot stop",
            where=user_line(), found=f"{name} in a traced step", expected="operations with kernels (docs/gpu.md)",
            hint="Call it before or after the step, or train on `device: cpu`.",
        )  # fmt: skip


def set_default_device(name: str | Device) -> None:
    """Sets the device that evaluates from now on, in all threads, except inside `device(...)`."""
    global _default
    lines.noting += get(name).is_asynchronous - get(_default).is_asynchronous
    _default = name


@contextmanager
def device(name: str | Device) -> Iterator[Device]:
    """Evaluates on this device inside the `with` block (in this thread)."""
    chosen = get(name)
    token = _override.set(chosen)
    lines.noting += chosen.is_asynchronous
    try:
        yield chosen
    finally:
        lines.noting -= chosen.is_asynchronous
        _override.reset(token)
