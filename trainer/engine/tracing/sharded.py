"""Compiles a step with shards to programs that compute all shards of this process.

In one process, the step is one program. With other processes, it is split at the sums over the shards: each program
computes the shards of this process up to the next sums, and adds them along the lower part of the tree.

    [shards, local sums] → exchange → [shards, local sums] → exchange → … → [shards, update]

A value that one process gives to the others (`from_process`) is exchanged in the same places. `program.partition`
decides, as inside one program, which values a program stores for later ones; the others are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine import targets
from trainer.engine.graph import primitives as p
from trainer.engine.graph.common import merged
from trainer.engine.graph.dtypes import int32
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.primitives.shards import CROSSING, FROM_PROCESS, SHARD_SUM
from trainer.engine.graph.rewrite import on, rebuilt, replaced
from trainer.engine.graph.simplify import simplify
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.program.partition import Policy, partition
from trainer.engine.program.shards import split_nodes
from trainer.engine.program.state_layouts import settle_layouts
from trainer.engine.sharding import Exchange, Shards

BUCKET_BYTES = 4 << 20
"""Total size from which sums that no stage waits for yet are exchanged together."""

Progress = Callable[[int, int, str], None]


@dataclass(eq=False)
class Stage:
    """A program that computes `targets` from `reads`, values of earlier stages, and from arguments of the step.

    `level` counts the sums over the shards before it. No later stage reads the values in `ends`.
    """

    level: int
    targets: dict[Node, None] = field(default_factory=dict)
    reads: dict[Node, None] = field(default_factory=dict)
    arguments: list[Storage] = field(default_factory=list)
    program: Any = None
    ends: list[Node] = field(default_factory=list)


class ShardedProgram:
    """The programs of a step that was traced for one shard.

    A node belongs to one shard if it depends on rows of the batch; other nodes are the same in all shards.

    Args:
        results: the nodes to return.
        updates: storages of states and their new values, which must be the same in all shards.
        rows: the placeholders of arguments with rows of the batch; `whole`: of arguments without.
        number: the placeholder of the shard's number.

    Attributes:
        stages: the programs in order. fence: the end of the last run.

    Raises:
        TrainerError: a state would get the value of one shard; the step calls host code, or sums over the shards
            inside a scan.
    """

    def __init__(
        self, device: targets.Device, shards: Shards, results: Sequence[Node],
        updates: Sequence[tuple[Storage, Node]], rows: Sequence[Node], whole: Sequence[Node], number: Node,
        progress: Progress | None = None,
    ) -> None:  # fmt: skip
        self.shards = shards
        self._arguments: list[Storage] = [node.attributes[0] for node in (*rows, *whole, number)]
        self._of_shards = {node.attributes[0] for node in (*rows, number)}
        outputs = _prepared([*results, *(node for _, node in updates)], shards.count, self._of_shards)
        self._results, news = outputs[: len(results)], outputs[len(results) :]
        order = topological(outputs)
        self._split = split_nodes(order, self._of_shards)
        self._level = _levels(order, is_exchanging=shards.exchange is not None)
        for (storage, _), node in zip(updates, news, strict=True):
            if node in self._split:
                raise refusal(
                    "trace",
                    f"the state {storage.name or 'without a name'!r} gets a value of one shard of the batch",
                    expected="a value that is the same in all shards",
                    hint="Sum the shards' values with engine.shard_sum before `assign`, or set train.shards to 1.",
                )
        self._updates = [(storage, node) for (storage, _), node in zip(updates, news, strict=True)]
        settle_layouts(order, self._updates)
        sums = [node for node in order if node.operation in CROSSING]
        self._stored = set(partition(order, [*outputs, *(node.inputs[0] for node in sums)], Policy()).roots)
        self.stages = self._planned(sums)
        self._compile(device, progress)
        self._numbers = Storage.of(np.arange(shards.first, shards.first + shards.size, dtype=np.int32), int32)
        self._numbers.move(device.memory)

    # Planning

    def _planned(self, sums: Sequence[Node]) -> list[Stage]:
        """The stages in order, with the nodes that each computes and reads."""
        level, news = self._level, [node for _, node in self._updates]
        highest = max([level[node] for node in (*sums, *self._results, *news)], default=0)
        stages = [Stage(number) for number in range(highest + 1)]
        last, between = stages[-1], Stage(highest)

        def owner(node: Node) -> Stage:
            return between if node.operation is FROM_PROCESS else stages[level[node] - self._is_exchanged(node)]

        def owner_for_last(node: Node) -> Stage:  # the last stage recomputes nodes that are the same in all shards
            return owner(node) if node in self._split or self._crosses(node) else last

        self._given = [node for node in sums if node.operation is FROM_PROCESS]
        self._sources = {node: node.inputs[0] for node in self._given if node.attributes[0] == self.shards.process}
        for node in self._sources.values():
            owner(node).targets[node] = None
        for node in sums:
            owner(node).targets.update({node: None} if self._is_exchanged(node) else {})
        for node in self._results:
            owner_for_last(node).targets[node] = None
        self._find_reads(last, [*last.targets, *news], owner_for_last)
        for stage in reversed(stages[:-1]):
            self._find_reads(stage, [*stage.targets], owner)
        stages = [stage for stage in stages if stage.targets or stage is last]
        later = set(self._results)
        for stage in reversed(stages):
            stage.ends = [node for node in (*stage.reads, *stage.targets) if node not in later]
            later.update(stage.ends)
        return stages

    def _find_reads(self, stage: Stage, outputs: Sequence[Node], stage_of: Callable[[Node], Stage]) -> None:
        """Finds values of other stages that `stage` needs for `outputs`; adds them to its reads and their targets."""
        visited = dict.fromkeys(outputs)
        waiting = list(visited)
        for node in waiting:  # the list grows in the loop
            is_read = self._crosses(node) or (node in self._stored and not node.is_bundle)
            if is_read and (owner := stage_of(node)) is not stage:
                owner.targets[node] = None
                stage.reads[node] = None
                continue
            for source in node.inputs:
                if source not in visited:
                    visited[source] = None
                    waiting.append(source)

    def _crosses(self, node: Node) -> bool:
        """Whether other processes contribute to the value of `node`."""
        return self._is_exchanged(node) or node.operation is FROM_PROCESS

    def _is_exchanged(self, node: Node) -> bool:
        return node.operation is SHARD_SUM and self.shards.exchange is not None

    # Compiling

    def _compile(self, device: targets.Device, progress: Progress | None) -> None:
        stands = {node: p.buffer(Storage(node.shape, node.dtype, name=node.name)) for node in self._given}
        for stage in self.stages:
            updates = self._updates if stage is self.stages[-1] else []
            built = replaced(
                [*stage.targets, *(node for _, node in updates)], {node: stands[node] for node in stage.reads}
            )
            count = len(stage.targets)
            changed = [(storage, node) for (storage, _), node in zip(updates, built[count:], strict=True)]
            leaves = [node for node in topological(built) if node.operation.family == "leaf"]
            arguments = [node for node in leaves if node.attributes[0] in self._arguments]
            stage.arguments = [node.attributes[0] for node in arguments]
            stage.program = device.compile(
                built[:count], changed, [*(stands[node] for node in stage.reads), *arguments], flush=True,
                progress=progress, shards=self.shards.size,
                split={*self._of_shards, *(stands[node].attributes[0] for node in stage.reads if node in self._split)},
            )  # fmt: skip
            for node, layout in zip(stage.targets, stage.program.layouts, strict=True):
                stands[node] = p.buffer(Storage(node.shape, node.dtype, name=node.name, layout=layout))
        self._layouts = {node: stands[node].attributes[0].layout for node in self._results}

    # Running

    def run(self, rows: Sequence[Storage], whole: Sequence[Storage]) -> list[list[Storage]]:
        """Runs the step on the rows of all local shards; returns the results of each shard."""
        given = dict(zip(self._arguments, [*rows, *whole, self._numbers], strict=True))
        values: dict[Node, Storage] = {}
        exchange = self.shards.exchange
        sums = None if exchange is None else _Sums(exchange, self.stages, is_divided=bool(self._given))
        given_levels = sorted({self._level[node] for node in self._given})
        for number, stage in enumerate(self.stages):
            while given_levels and given_levels[0] <= stage.level:  # all processes exchange in the same order
                self._gather(given_levels.pop(0), values)
            if sums is not None:
                sums.finish(stage.reads)
            run = stage.program.run(
                [*(values[node] for node in stage.reads), *(given[storage] for storage in stage.arguments)]
            )
            self.fence = run.fence
            values.update(zip(stage.targets, run, strict=True))
            del run
            if sums is not None:
                sums.begin({node: values[node] for node in stage.targets if self._is_exchanged(node)}, number)
            for node in stage.ends:
                if node not in self._sources.values():
                    values.pop(node, None)
        if sums is not None:
            sums.finish([*self._results, *sums.under_way])
        count = self.shards.size
        found = [
            _parts(values[node], node, self._layouts[node], count) if node in self._split else [values[node]] * count
            for node in self._results
        ]
        return [list(of_shard) for of_shard in zip(*found, strict=True)] if found else [[] for _ in range(count)]

    def _gather(self, level: int, values: dict[Node, Storage]) -> None:
        """Exchanges the values of a level that processes give to the others, as row-major arrays."""
        nodes = [node for node in self._given if self._level[node] == level]
        arrays = [
            np.array(values[self._sources[node]].view(), order="C")
            if node in self._sources
            else np.empty(node.shape, node.dtype.storage)
            for node in nodes
        ]
        if self.shards.exchange is not None:
            self.shards.exchange.gather([array.reshape(-1) for array in arrays], [node.attributes[0] for node in nodes])
        values.update({node: Storage.of(array, node.dtype) for node, array in zip(nodes, arrays, strict=True)})


class _Sums:
    """The sums of a run that are exchanged with other processes.

    Sums that the next stage reads are sent at once. Others, such as gradients of weights, wait until they fill a
    bucket; the processes exchange it while they continue to compute. If the processes compute different values after
    the sums (`is_divided`), all sums are sent at once, since the order must be the same in all processes.
    """

    def __init__(self, exchange: Exchange, stages: Sequence[Stage], *, is_divided: bool) -> None:
        from trainer.engine.targets.cpu.flushing import flushing  # imports LLVM, which takes long

        self._exchange, self._stages, self._is_divided = exchange, stages, is_divided
        self._flushing = flushing
        self._bucket: dict[Node, Storage] = {}
        self._ends: dict[Node, Callable[[], None]] = {}

    def begin(self, sums: Mapping[Node, Storage], number: int) -> None:
        """Takes the local sums of stage `number`."""
        following = self._stages[number + 1].reads if number + 1 < len(self._stages) else {}
        if self._is_divided:
            following = dict.fromkeys(sums)
        self._send({node: total for node, total in sums.items() if node in following})
        self._bucket.update({node: total for node, total in sums.items() if node not in following})
        if sum(total.nbytes for total in self._bucket.values()) >= BUCKET_BYTES:
            self._send_bucket()

    @property
    def under_way(self) -> list[Node]:
        """The sums that nothing has waited for yet."""
        return [*self._bucket, *self._ends]

    def finish(self, nodes: Iterable[Node]) -> None:
        """Waits for the sums among `nodes`."""
        nodes = list(nodes)
        if not self._bucket.keys().isdisjoint(nodes):
            self._send_bucket()
        with self._flushing():
            for end in dict.fromkeys([self._ends[node] for node in nodes if node in self._ends]):
                end()
                self._ends = {node: other for node, other in self._ends.items() if other is not end}

    def _send_bucket(self) -> None:
        bucket, self._bucket = self._bucket, {}
        self._send(bucket)

    def _send(self, sums: Mapping[Node, Storage]) -> None:
        if sums:
            with self._flushing():
                end = self._exchange.begin([*sums.values()])
            self._ends.update(dict.fromkeys(sums, end))


def _prepared(outputs: Sequence[Node], count: int, of_shards: set[Storage]) -> list[Node]:
    """`outputs` without common subexpressions and without sums over shards of values that all shards share."""
    outputs = simplify(merged(outputs))
    split = split_nodes(topological(outputs), of_shards)

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.operation is SHARD_SUM and node.inputs[0] not in split:
            return p.multiply(inputs[0], p.full_like(inputs[0], count))
        return on(node, inputs)

    return rebuilt(outputs, rule)


def _levels(order: Sequence[Node], *, is_exchanging: bool) -> dict[Node, int]:
    """For each node, the number of exchanges with other processes up to it: sums over the shards, and given values.

    Raises:
        TrainerError: host code is called, or a scan sums over the shards.
    """
    level: dict[Node, int] = {}
    for node in order:
        if node.operation.effect or node.name.startswith("host_"):
            raise _refused(node, "calls host code in a step with shards")
        if node.name == "scan" and any(
            each.operation is SHARD_SUM for each in topological(node.attributes[0].computed)
        ):
            raise _refused(node, "sums over the shards of the batch at each of its steps")
        is_sum = is_exchanging and node.operation in CROSSING
        level[node] = max([level[source] for source in node.inputs], default=0) + is_sum
    return level


def _refused(node: Node, why: str) -> TrainerError:
    return refusal(node.name, f"{node.name} {why}", expected="train.shards: 1, or a step without it")


def _parts(storage: Storage, node: Node, layout: Layout, count: int) -> list[Storage]:
    """The value of each shard in a storage that holds them one after the other, as views of the same block."""
    parts = [Storage(node.shape, node.dtype) for _ in range(count)]
    for place, part in enumerate(parts):
        part.put(storage.owner.part(storage.block, place * node.size, node.size), layout, storage.owner)
    return parts
