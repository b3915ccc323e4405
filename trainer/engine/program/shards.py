"""Expands the items of one shard to several shards, which one program computes.

A batch is computed in equal parts, the shards (`engine.sharding`). The graph describes one shard; here its items become
items for all local shards, whose values are stored one after the other:

- Element-wise work and reductions get another axis. Contractions and windows over rows get more rows: a row's bits do
  not depend on how many there are.
- Items that sum over rows (weight gradients), and all other items, become one item per shard, otherwise unchanged.
- A sum over the shards becomes a balanced tree over their numbers, the lower operand first.

So the bits do not depend on the number of shards that a program computes: they are those of one shard alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives.shards import SHARD_SUM
from trainer.engine.graph.storage import Storage
from trainer.engine.program.loops import loop
from trainer.engine.program.spec import Instruction
from trainer.engine.program.work import Buffer, Call, Reduce, View, Work

TREE_OPERANDS = 8
"""Number of operands of one loop in a tree of sums, a power of two."""

_DIRECT = ("convolution", "convolution_input_gradient")


def split_nodes(order: Sequence[Node], storages: Set[Storage]) -> set[Node]:
    """The nodes of the graph in `order` whose values differ between the shards because the values of `storages` do."""
    split: set[Node] = set()
    for node in order:
        is_leaf = node.operation.family == "leaf" and node.attributes[0] in storages
        if node.operation is not SHARD_SUM and (is_leaf or not split.isdisjoint(node.inputs)):
            split.add(node)
    return split


def over_shards(works: Sequence[Work], storages: Set[Storage], count: int) -> list[Work]:
    """The items for `count` shards; `storages` hold the values of all of them, one shard after the other."""
    split = _split(works, storages)
    pitches = {buffer: buffer.size for buffer in split}
    shards = _Shards(count, pitches)
    together = {work: found for work in works if (found := shards.together(work)) is not None}
    touched = {buffer for work in together for buffer in work.buffers}
    for buffer, size in pitches.items():
        if buffer in touched or not buffer.in_arena:
            buffer.size = size * count
        else:
            shards.copies[buffer] = [replace(buffer) for _ in range(count)]
    result: list[Work] = []
    for work in works:
        if work.kind == "collective":
            made = shards.tree(work)
        elif split.isdisjoint(work.buffers):
            made = iter([work])
        elif work in together:
            made = iter([_canonical(together[work])])
        else:
            made = (shards.one(work, number) for number in range(count))
        for each in made:
            each.line = work.line
            result.append(each)
    return result


def _split(works: Sequence[Work], storages: Set[Storage]) -> set[Buffer]:
    """Buffers whose values differ between the shards."""
    split = {buffer for work in works for buffer in work.buffers if buffer.storage in storages}
    found = -1
    while found != len(split):
        found = len(split)
        for work in works:
            if work.kind != "collective" and not split.isdisjoint(work.buffers):
                split.update(_targets(work))
    return split


def _targets(work: Work) -> list[Buffer]:
    """The buffers that an item writes; for a repeat, only those that other items read."""
    if work.kind != "repeat":
        return [*work.targets]
    return [each.view.buffer for each in work.spec.stand_ins if each.is_written and each.view.buffer is not None]


@dataclass
class _Shards:
    """The expansion to `count` shards. `pitches`: the number of elements between two shards in each buffer that has all
    of them. `copies`: the buffers of single shards.
    """

    count: int
    pitches: Mapping[Buffer, int]
    copies: dict[Buffer, list[Buffer]] = field(default_factory=dict)

    # One item for all shards

    def together(self, work: Work) -> Work | None:
        """One item for all shards; None if that is impossible, or if the shards don't differ."""
        if not any(buffer in self.pitches for buffer in work.buffers):
            return None
        match work.kind:
            case "loop":
                return self._with_axis(work)
            case "reduction":
                axes = tuple([axis + 1 for axis in work.spec.axes])
                return replace(self._with_axis(work), spec=Reduce(work.spec.operations, axes))
            case "contraction":
                return self._with_rows(work) if self._keeps_rows_separate(work) else None
            case "window":
                return self._with_rows(work)
        return None

    def _with_axis(self, work: Work) -> Work:
        """A loop or reduction with an outermost axis over the shards."""
        reads, writes = (tuple([self._stacked(view) for view in side]) for side in (work.reads, work.writes))
        return replace(work, extents=(self.count, *work.extents), reads=reads, writes=writes, in_place=())

    def _stacked(self, view: View) -> View:
        step = 0 if view.buffer is None else self.pitches.get(view.buffer, 0)
        return replace(view, shape=(self.count, *view.shape), strides=(step, *view.strides))

    def _keeps_rows_separate(self, work: Work) -> bool:
        """Whether each row of the result depends only on the same row of the operands that have rows."""
        name, (first, second, *_) = work.spec.operation.name, work.reads
        if not self._is_split(first) or (name not in _DIRECT and name != "matmul"):
            return False
        if name in _DIRECT or first.ndim == 2:
            return not self._is_split(second)
        return first.ndim > 2

    def _is_split(self, view: View) -> bool:
        return view.buffer in self.pitches

    def _with_rows(self, work: Work) -> Work | None:
        """A call with the rows of all shards along its first axis; None if they don't follow each other."""
        call: Call = work.spec
        operands = [*work.epilogue.operands, *work.prologue.operands]
        plain = len(work.reads) - len(operands)
        has_rows = [place == 0 or call.operation.name not in _DIRECT for place in range(plain)]
        if call.operation.name == "matmul":
            has_rows = [True, len(call.shape) > 2]
        has_rows += [operand.addressing == "same" for operand in operands]
        reads = [
            self._longer(view) if rows else None if self._is_split(view) else view
            for view, rows in zip(work.reads, has_rows, strict=True)
        ]
        write = self._longer(work.writes[0])
        if write is None or None in reads or len(work.writes) != 1:
            return None
        call = replace(call, shape=(call.shape[0] * self.count, *call.shape[1:]))
        return replace(work, spec=call, reads=tuple([view for view in reads if view is not None]), writes=(write,))

    def _longer(self, view: View) -> View | None:
        """A view of the rows of all shards, or None; the shards can share a view only if all its rows are the same."""
        rows, step = view.shape[0], view.strides[0]
        pitch = 0 if view.buffer is None else self.pitches.get(view.buffer, 0)
        if rows == 0 or pitch % rows or (rows > 1 and step * rows != pitch):
            return None
        return replace(view, shape=(rows * self.count, *view.shape[1:]), strides=(pitch // rows, *view.strides[1:]))

    # One item for each shard

    def one(self, work: Work, number: int) -> Work:
        """The item of one shard."""
        reads, writes = (tuple([self.of(view, number) for view in side]) for side in (work.reads, work.writes))
        if work.kind != "repeat":
            return replace(work, reads=reads, writes=writes)
        inside = {buffer for part in work.parts for buffer in part.buffers}
        assert inside.isdisjoint(self.pitches), "a repeat reads what differs between shards other than by its stand-ins"
        stand_ins = tuple([replace(each, view=self.of(each.view, number)) for each in work.spec.stand_ins])
        return replace(work, spec=replace(work.spec, stand_ins=stand_ins), reads=reads, writes=writes)

    def of(self, view: View, number: int) -> View:
        """The view of an operand for one shard."""
        if view.buffer is None:
            return view
        if view.buffer in self.copies:
            return replace(view, buffer=self.copies[view.buffer][number])
        return replace(view, offset=view.offset + number * self.pitches.get(view.buffer, 0))

    # Sums over the shards

    def tree(self, work: Work) -> Iterator[Work]:
        """Yields the loops of a sum over the shards."""
        (source,), (target,) = work.reads, work.writes
        views = [self.of(source, number) for number in range(self.count)]
        while len(views) > TREE_OPERANDS:
            sums = []
            for first in range(0, len(views), TREE_OPERANDS):
                buffer = Buffer(target.size, target.dtype, "part of a sum over shards")
                sums.append(replace(target, buffer=buffer))
                yield _sum(views[first : first + TREE_OPERANDS], sums[-1])
            views = sums
        yield _sum(views, target)


def _canonical(work: Work) -> Work:
    """A loop with as few axes as possible; other items are returned unchanged."""
    if work.kind != "loop":
        return work
    return loop(work.extents, work.body, work.reads, work.writes, work.stored, work.label)


def _sum(views: Sequence[View], target: View) -> Work:
    """A loop that adds arrays, whose number is a power of two, in a balanced tree."""
    body = [Instruction("load", (), target.dtype, (number,)) for number in range(len(views))]
    values = [*range(len(views))]
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=True)
        body += [Instruction("add", pair, target.dtype) for pair in pairs]
        values = [*range(len(body) - len(values) // 2, len(body))]
    return loop(target.shape, body, views, [target], values, "shard_sum")
