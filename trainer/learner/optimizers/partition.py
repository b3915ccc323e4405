"""Assigns the optimizer state of each parameter to a process (ZeRO stage 1, Rajbhandari et al. 2020)."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Partition:
    """One process of several; each keeps the optimizer state of some parameters. Process 0 of 1 keeps all."""

    process: int = 0
    processes: int = 1

    def owners(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Assigns each parameter to a process: the largest first, to the process with the fewest elements so far."""
        load, owners = [0] * self.processes, {}
        for name in sorted(sizes, key=lambda name: -sizes[name]):
            owners[name] = owner = load.index(min(load))
            load[owner] += sizes[name]
        return owners


_current: contextvars.ContextVar[Partition | None] = contextvars.ContextVar("partition", default=None)


def current() -> Partition:
    """The partition for optimizers that are created now."""
    return _current.get() or Partition()


@contextlib.contextmanager
def partitioned(partition: Partition) -> Iterator[None]:
    """Sets the partition of optimizers created inside this context."""
    token = _current.set(partition)
    try:
        yield
    finally:
        _current.reset(token)
