"""Shards: the equal parts of a batch that a traced step is computed for, one by one, in any number of processes.

The step is traced for one shard. A reduction over the batch gives one value per shard; `shard_sum` adds them in a
balanced tree over the shards' numbers, so the bits depend on the number of shards, not on the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trainer import TrainerError
from trainer.engine.graph import dtypes, lines, row_mixing
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage

RANDOM_SHIFT = 16
"""Low bits of the second word of a random counter that count micro-steps; the bits above hold the shard's number."""


class Exchange(Protocol):
    """Communication with the processes that hold the other shards: sums, and broadcasts of one process's values."""

    def begin(self, totals: Sequence[Storage]) -> Callable[[], None]:
        """Starts to replace values with their sums over all processes: a balanced tree over ranks, the lower operand
        first. Returns a function that must be called before anything reads the sums. All processes begin the same sums
        in the same order.
        """

    def gather(self, arrays: Sequence[np.ndarray], owners: Sequence[int]) -> None:
        """Replaces each flat array with the array of its owner, a process."""


@dataclass(frozen=True)
class Shards:
    """The number of shards of a batch, and the shards that this process computes.

    Args:
        count: number of shards, a power of two.
        first: number of the first shard of this process.
        local: number of consecutive shards of this process, a power of two; None: all shards.
        exchange: communication with the other processes; None if there are none.

    Raises:
        TrainerError: a number is not a power of two.
    """

    count: int
    first: int = 0
    local: int | None = None
    exchange: Exchange | None = None

    def __post_init__(self) -> None:
        if self.local is None:
            object.__setattr__(self, "local", self.count)
        for found in (self.count, self.size):
            if found < 1 or found & (found - 1):
                raise TrainerError("the number of shards is not a power of two", found=found, expected="1, 2, 4, 8, …")

    @property
    def size(self) -> int:
        """Number of shards of this process."""
        assert self.local is not None
        return self.local

    @property
    def process(self) -> int:
        """Number of this process; processes are numbered in the order of their shards."""
        return self.first // self.size

    def rows(self, batch_size: int) -> slice:
        """The rows that this process computes, of a batch with the rows of all shards.

        Raises:
            TrainerError: the shards do not divide the batch.
        """
        check_divides(self.count, batch_size)
        rows = batch_size // self.count
        return slice(self.first * rows, (self.first + self.size) * rows)


def check_divides(count: int, batch_size: int) -> None:
    """Raises unless `count` shards divide a batch of `batch_size` rows."""
    if batch_size % count:
        raise TrainerError(
            "the shards do not divide the batch",
            found=f"{count} shards and {batch_size} rows",
            expected=f"a batch size that is a multiple of {count}",
            hint="Change data.batch_size or train.shards.",
        )


@dataclass(frozen=True)
class _Traced:
    """The step being traced for one of `count` shards, whose number is `number`, int32 ().

    arguments: placeholders of the step's arguments. states: placeholders of the states that it has read so far.
    """

    count: int
    number: Node
    arguments: Collection[Node]
    states: Collection[Node]


_traced: ContextVar[_Traced | None] = ContextVar("traced_shard", default=None)
_counted: ContextVar[Node | None] = ContextVar("counted_shard", default=None)


@contextmanager
def tracing_shard(count: int, number: Node, arguments: Collection[Node], states: Collection[Node]) -> Iterator[None]:
    """Traces a step for one of `count` shards inside the `with` block; `_Traced` describes the arguments."""
    token = _traced.set(_Traced(count, number, arguments, states))
    lines.noting += 1  # the error shows the line of an operation that mixes rows
    try:
        yield
    finally:
        lines.noting -= 1
        _traced.reset(token)


def check_rows(outputs: Sequence[Node]) -> None:
    """Checks that `outputs` of one shard do not mix rows of the batch (`graph.row_mixing`); no-op without shards.

    Raises:
        TrainerError: an operation mixes rows; the message names it.
    """
    traced = _traced.get()
    if traced is not None:
        arguments, states = ({node.attributes[0] for node in nodes} for nodes in (traced.arguments, traced.states))
        row_mixing.check_rows(outputs, arguments, states)


def shard_count() -> int:
    """The number of shards of the step being traced; 1 without shards."""
    traced = _traced.get()
    return 1 if traced is None else traced.count


def shard_number() -> Node:
    """The number of the shard that the step is traced for, int32 ()."""
    traced = _traced.get()
    return p.constant(0, dtypes.int32) if traced is None else traced.number


@contextmanager
def counting(is_counted: Node | None) -> Iterator[None]:
    """Inside the `with` block, sums over the shards leave out shards where `is_counted`, bool (), is false."""
    token = _counted.set(is_counted)
    try:
        yield
    finally:
        _counted.reset(token)


def counted() -> Node | None:
    """Whether this shard is part of sums over the shards; None: all shards are."""
    return _counted.get()


def random_counter(counter: Node) -> Node:
    """The `counter` of a random draw, int32 [2], plus the shard's number: rows of all shards draw different numbers."""
    traced = _traced.get()
    if traced is None:
        return counter
    shifted = p.multiply(traced.number, p.constant(1 << RANDOM_SHIFT, dtypes.int32))
    is_second = p.iota((2,), 0, dtypes.int32)
    return p.add(counter, p.multiply(is_second, p.expand(p.reshape(shifted, (1,)), (2,))))
