"""A step with shards as a sequence of programs: it is split where a value crosses the batch.

A node is of one shard if it depends on rows of the batch; others are the same in all shards. Between two sums over the
shards, a program computes what is of one shard, for each local shard in turn, and another, once, what is not. What is
stored and read by a later program is decided as inside one program (`program.partition`): the rest is computed again.

    [once] → [each shard] → tree over local shards → exchange with other processes → [once] → [each shard] → … → update

The split needs nothing of a device but programs, so shards run on every device, and in the order of one thread. A
device whose programs compute several shards at once has `lockstep`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine import targets
from trainer.engine.graph import primitives as p
from trainer.engine.graph.common import merged
from trainer.engine.graph.dtypes import int32
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Node, Shape, topological
from trainer.engine.graph.primitives.shards import SHARD_SUM
from trainer.engine.graph.rewrite import on, rebuilt, replaced
from trainer.engine.graph.simplify import simplify
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.program.partition import Policy, partition
from trainer.engine.program.state_layouts import settle_layouts
from trainer.engine.sharding import Shards

Progress = Callable[[int, int, str], None]


@dataclass(eq=False)
class Stage:
    """A program that computes `targets` from `reads`, values of earlier stages, and from arguments of the step.

    `level` counts the sums over the shards before it. No later stage reads the values in `ends`.
    """

    level: int
    is_split: bool = False
    is_sum: bool = False
    targets: dict[Node, None] = field(default_factory=dict)
    reads: dict[Node, None] = field(default_factory=dict)
    arguments: list[Storage] = field(default_factory=list)
    program: Any = None
    ends: list[Node] = field(default_factory=list)


class ShardedProgram:
    """The programs of a step that was traced for one shard.

    Args:
        results: the nodes to return.
        updates: storages of states and their new values, which must be the same in all shards.
        rows: the placeholders of arguments with rows of the batch; `whole`: of those without.
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
        self._rows, self._whole = [[node.attributes[0] for node in nodes] for nodes in (rows, whole)]
        self._number: Storage = number.attributes[0]
        of_shards = {*self._rows, self._number}
        outputs = _prepared([*results, *(node for _, node in updates)], shards.count, of_shards)
        self._results, news = outputs[: len(results)], outputs[len(results) :]
        order = topological(outputs)
        self._split, self._level = _classified(order, of_shards)
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
        sums = [node for node in order if node.operation is SHARD_SUM]
        self._stored = set(partition(order, [*outputs, *(node.inputs[0] for node in sums)], Policy()).roots)
        self.stages = self._planned(sums)
        self._compile(device, progress)
        self._early = {node for stage in self.stages[:-1] for node in stage.reads}
        self._numbers = [Storage.of(np.asarray(shards.first + place, np.int32), int32) for place in range(shards.size)]
        for storage in self._numbers:
            storage.move(device.memory)

    # Planning

    def _planned(self, sums: Sequence[Node]) -> list[Stage]:
        """The stages in order, with what each computes and reads."""
        split, level = self._split, self._level
        news = [node for _, node in self._updates]
        highest = max([level[node] for node in (*sums, *self._results, *news)], default=0)
        levels = range(highest + 1)
        once = [Stage(number) for number in levels]
        each = [Stage(number, is_split=True) for number in levels]
        added = [Stage(number, is_sum=True) for number in levels]
        update = Stage(highest, targets=dict.fromkeys(news))
        for node in sums:
            added[level[node]].targets[node] = None
            added[level[node]].reads[node.inputs[0]] = None
            each[level[node.inputs[0]]].targets[node.inputs[0]] = None
        for node in self._results:
            (each[level[node]] if node in split else update).targets[node] = None

        def owner(node: Node) -> Stage:
            return (added if node.operation is SHARD_SUM else each if node in split else once)[level[node]]

        for stage in (*reversed(each), *reversed(once)):
            self._find_reads(stage, [*stage.targets], owner)
        computed = {node for stage in (*added, *once) for node in stage.targets}
        self._find_reads(update, [*update.targets], lambda node: owner(node) if node in computed else update)
        ordered = [stage for number in levels for stage in (added[number], once[number], each[number])]
        stages = [stage for stage in (*ordered, update) if stage.targets]
        self._find_ends(stages)
        return stages

    def _find_ends(self, stages: Sequence[Stage]) -> None:
        """Fill in what no later stage reads."""
        later = set(self._results)
        for stage in reversed(stages):
            stage.ends = [node for node in (*stage.reads, *stage.targets) if node not in later]
            later.update(stage.ends)

    def _find_reads(self, stage: Stage, outputs: Sequence[Node], stage_of: Callable[[Node], Stage]) -> None:
        """Fill in what `stage` reads of others to compute `outputs`, and have them compute it."""
        visited = dict.fromkeys(outputs)
        waiting = list(visited)
        for node in waiting:  # which grows
            if self._is_read(node) and (owner := stage_of(node)) is not stage:
                owner.targets[node] = None
                stage.reads[node] = None
                continue
            for source in node.inputs:
                if source not in visited:
                    visited[source] = None
                    waiting.append(source)

    def _is_read(self, node: Node) -> bool:
        """Whether a stage reads `node` where another one computes it."""
        return node.operation is SHARD_SUM or (node in self._stored and not node.is_bundle)

    # Compiling

    def _compile(self, device: targets.Device, progress: Progress | None) -> None:
        stands: dict[Node, Node] = {}
        for stage in self.stages:
            if stage.is_sum:
                layouts = self._compile_sum(stage, device, stands, progress)
            else:
                layouts = self._compile_stage(stage, device, stands, progress)
            for node, layout in zip(stage.targets, layouts, strict=True):
                stands[node] = p.buffer(Storage(node.shape, node.dtype, name=node.name, layout=layout))

    def _compile_stage(
        self, stage: Stage, device: targets.Device, stands: Mapping[Node, Node], progress: Progress | None
    ) -> Sequence[Layout]:
        updates = self._updates if stage is self.stages[-1] and not stage.is_split else []
        if updates:
            results = set(self._results)
            stage.targets = {node: None for node in stage.targets if node in results}
        outputs = [*stage.targets, *(node for _, node in updates)]
        built = replaced(outputs, {node: stands[node] for node in stage.reads})
        count = len(stage.targets)
        changed = [(storage, node) for (storage, _), node in zip(updates, built[count:], strict=True)]
        inputs = self._arguments_of(stage, built)
        reads = [stands[node] for node in stage.reads]
        stage.program = device.compile(built[:count], changed, [*reads, *inputs], flush=True, progress=progress)
        return stage.program.layouts

    def _arguments_of(self, stage: Stage, outputs: Sequence[Node]) -> list[Node]:
        """The arguments of the step that a stage's `outputs` depend on, which it notes."""
        known = {*self._rows, *self._whole, self._number}
        leaves = [node for node in topological(outputs) if node.operation.family == "leaf"]
        inputs = [node for node in leaves if node.attributes[0] in known]
        stage.arguments = [node.attributes[0] for node in inputs]
        return inputs

    def _compile_sum(
        self, stage: Stage, device: targets.Device, stands: Mapping[Node, Node], progress: Progress | None
    ) -> Sequence[Layout]:
        """The local part of the tree. Subnormal numbers are kept, as processes keep them that exchange sums."""
        sources = [stands[node.inputs[0]] for node in stage.targets]
        if self.shards.size == 1:
            return [source.attributes[0].layout for source in sources]
        operands = [
            [p.buffer(Storage(source.shape, source.dtype, layout=source.attributes[0].layout)) for source in sources]
            for _ in range(self.shards.size)
        ]
        totals = [_tree(of_shards) for of_shards in zip(*operands, strict=True)]
        inputs = [node for nodes in operands for node in nodes]
        stage.program = device.compile(totals, (), inputs, progress=progress)
        return stage.program.layouts

    # Running

    def run(self, rows: Sequence[Storage], whole: Sequence[Storage]) -> list[list[Storage]]:
        """Run on the rows of all local shards; returns the results, for each of them."""
        fixed, count = dict(zip(self._whole, whole, strict=True)), self.shards.size
        given = [{**fixed, self._number: number} for number in self._numbers]
        for argument, storage in zip(self._rows, rows, strict=True):
            for of_shard, part in zip(given, parts_of(storage, argument.shape, count), strict=True):
                of_shard[argument] = part
        values: dict[Node, list[Storage]] = {}  # of each local shard
        begun: dict[Node, Callable[[], None]] = {}
        for stage in self.stages:
            for finish in {begun.pop(node) for node in stage.reads if node in begun}:
                finish()
            if stage.is_sum:
                totals = self._totals(stage, values)
                values.update(zip(stage.targets, [[total] * self.shards.size for total in totals], strict=True))
                begun.update(self._begin(dict(zip(stage.targets, totals, strict=True))))
            else:
                count = len(given) if stage.is_split else 1
                runs = [
                    stage.program.run(
                        [*(values[node][place] for node in stage.reads), *map(given[place].get, stage.arguments)]
                    )
                    for place in range(count)
                ]
                self.fence = runs[-1].fence
                for place, node in enumerate(stage.targets):
                    found = [run[place] for run in runs]
                    values[node] = found if stage.is_split else found * len(given)
                del runs
            for node in stage.ends:
                values.pop(node, None)
        for finish in {*begun.values()}:
            finish()
        return [[values[node][place] for node in self._results] for place in range(len(given))]

    def _begin(self, totals: Mapping[Node, Storage]) -> dict[Node, Callable[[], None]]:
        """Begin the exchange with other processes; gives what ends it. First come the sums that other stages than the
        update read; gradients are exchanged while the backward pass goes on.
        """
        exchange = self.shards.exchange
        if exchange is None:
            return {}
        begun: dict[Node, Callable[[], None]] = {}
        for is_early in (True, False):
            part = [node for node in totals if (node in self._early) is is_early]
            if part:
                begun.update(dict.fromkeys(part, exchange.begin([totals[node] for node in part])))
        return begun

    def _totals(self, stage: Stage, values: Mapping[Node, list[Storage]]) -> list[Storage]:
        """The sums of a stage over the local shards."""
        operands = [values[node.inputs[0]] for node in stage.targets]
        if stage.program is None:
            return [operand[0].copied() for operand in operands]
        found: list[Storage] = stage.program.run(
            [each[place] for place in range(self.shards.size) for each in operands]
        )
        return found


def _tree(values: Sequence[Node]) -> Node:
    """The sum of a power of two of values: a balanced tree, the lower operand first."""
    while len(values) > 1:
        values = [p.add(first, second) for first, second in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def _prepared(outputs: Sequence[Node], count: int, of_shards: set[Storage]) -> list[Node]:
    """`outputs` without common subexpressions and without sums over shards of what is the same in all of them."""
    split: set[Node] = set()

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        new = on(node, inputs)
        is_leaf_of_shard = new.operation.family == "leaf" and new.attributes[0] in of_shards
        if node.operation is SHARD_SUM:
            return new if inputs[0] in split else p.multiply(inputs[0], p.full_like(inputs[0], count))
        if is_leaf_of_shard or not split.isdisjoint(inputs):
            split.add(new)
        return new

    return rebuilt(simplify(merged(outputs)), rule)


def _classified(order: Sequence[Node], of_shards: set[Storage]) -> tuple[set[Node], dict[Node, int]]:
    """The nodes that are of one shard, and for each node the number of sums over the shards before it.

    Raises:
        TrainerError: host code is called, or a scan sums over the shards.
    """
    split: set[Node] = set()
    level: dict[Node, int] = {}
    for node in order:
        if node.operation.effect or node.name.startswith("host_"):
            raise _refused(node, "calls host code in a step with shards")
        if node.name == "scan" and any(
            each.operation is SHARD_SUM for each in topological(node.attributes[0].computed)
        ):
            raise _refused(node, "sums over the shards of the batch at each of its steps")
        is_sum = node.operation is SHARD_SUM
        level[node] = max([level[source] for source in node.inputs], default=0) + is_sum
        is_leaf_of_shard = node.operation.family == "leaf" and node.attributes[0] in of_shards
        if not is_sum and (is_leaf_of_shard or not split.isdisjoint(node.inputs)):
            split.add(node)
    return split, level


def _refused(node: Node, why: str) -> TrainerError:
    return refusal(node.name, f"{node.name} {why}", expected="train.shards: 1, or a step without it")


def parts_of(storage: Storage, shape: Shape, count: int) -> list[Storage]:
    """The parts of `shape`, which lie one after the other in a storage: views of the same block."""
    flat = storage.flat()
    size = math.prod(shape)
    parts = [Storage(shape, storage.dtype, name=storage.name, layout=storage.layout) for _ in range(count)]
    for place, part in enumerate(parts):
        part.put(flat[place * size : (place + 1) * size], storage.layout)
    return parts
