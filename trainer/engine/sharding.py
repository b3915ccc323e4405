"""Shards: the equal parts of a batch that a traced step is computed for, one by one, in any number of processes.

The step is traced for one shard. What crosses the batch is a value per shard, then `shard_sum`: one balanced tree over
the shards' numbers, so the bits depend on the number of shards, not on the number of processes that compute them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from trainer import TrainerError
from trainer.engine.graph import dtypes, lines, row_mixing
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage

RANDOM_SHIFT = 16
"""The shard's number lies above this many bits of a random counter's second word; micro-steps lie below."""


class Exchange(Protocol):
    """Sums over the processes that hold the other shards."""

    def begin(self, totals: Sequence[Storage]) -> Callable[[], None]:
        """Begin to replace values by their sums over all processes: a balanced tree over ranks, the lower operand
        first. Call the function that this returns before anything reads them. All processes begin the same sums in the
        same order.
        """


@dataclass(frozen=True)
class Shards:
    """How many shards a batch has, and those that this process computes.

    Args:
        count: number of shards, a power of two.
        first: number of the first shard of this process.
        local: number of consecutive shards of this process, a power of two; None: all.
        exchange: adds up over the other processes; None if there are none.

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

    def rows(self, batch_size: int) -> slice:
        """The rows of a batch of all shards that this process computes.

        Raises:
            TrainerError: the shards do not divide the batch.
        """
        check_divides(self.count, batch_size)
        rows = batch_size // self.count
        return slice(self.first * rows, (self.first + self.size) * rows)


def check_divides(count: int, batch_size: int) -> None:
    """Raise unless `count` shards divide a batch of `batch_size` rows."""
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

    arguments: placeholders of what it is called with. states: those of the states that it has read so far.
    """

    count: int
    number: Node
    arguments: Collection[Node]
    states: Collection[Node]


_traced: ContextVar[_Traced | None] = ContextVar("traced_shard", default=None)
_counted: ContextVar[Node | None] = ContextVar("counted_shard", default=None)


@contextmanager
def tracing_shard(count: int, number: Node, arguments: Collection[Node], states: Collection[Node]) -> Iterator[None]:
    """Inside the `with` block a step is traced for one of `count` shards; the arguments are those of `_Traced`."""
    token = _traced.set(_Traced(count, number, arguments, states))
    lines.noting += 1  # shown to the user if an operation mixes rows
    try:
        yield
    finally:
        lines.noting -= 1
        _traced.reset(token)


def check_rows(outputs: Sequence[Node]) -> None:
    """Raise if `outputs`, of one shard, mix rows of the batch; see `graph.row_mixing`. Nothing without shards.

    Raises:
        TrainerError: names the operation.
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
    """Inside the `with` block a sum over the shards leaves out those where `is_counted`, bool (), is false."""
    token = _counted.set(is_counted)
    try:
        yield
    finally:
        _counted.reset(token)


def counted() -> Node | None:
    """Whether this shard is part of sums over the shards; None: all are."""
    return _counted.get()


def random_counter(counter: Node) -> Node:
    """`counter`, int32 [2], of a random draw: each shard has its own, as rows of a batch have their own numbers."""
    traced = _traced.get()
    if traced is None:
        return counter
    shifted = p.multiply(traced.number, p.constant(1 << RANDOM_SHIFT, dtypes.int32))
    is_second = p.iota((2,), 0, dtypes.int32)
    return p.add(counter, p.multiply(is_second, p.expand(p.reshape(shifted, (1,)), (2,))))
