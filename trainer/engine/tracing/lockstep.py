"""A step with shards on a device whose programs compute several shards at once.

In one process the step is one program. With others it is cut at the sums over the shards: each program computes the
shards of this process up to the next sums, and adds them up along the lower part of the tree.

    [shards, local sums] → exchange → [shards, local sums] → exchange → … → [shards, update]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from trainer.engine import targets
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import int32
from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives.shards import SHARD_SUM
from trainer.engine.graph.rewrite import replaced
from trainer.engine.graph.storage import Storage
from trainer.engine.sharding import Exchange
from trainer.engine.tracing.sharded import Progress, ShardedProgram, Stage, parts_of

BUCKET_BYTES = 4 << 20
"""Sums that no stage waits for yet are exchanged together from this size on."""


class LockstepProgram(ShardedProgram):
    """As `ShardedProgram`; each stage has all local shards, and the sums that follow it."""

    def _planned(self, sums: Sequence[Node]) -> list[Stage]:
        if self.shards.exchange is None:
            self._level = dict.fromkeys(self._level, 0)
        level, news = self._level, [node for _, node in self._updates]
        highest = max([level[node] for node in (*sums, *self._results, *news)], default=0)
        stages = [Stage(number) for number in range(highest + 1)]
        last = stages[-1]

        def owner(node: Node) -> Stage:
            return stages[level[node] - self._is_exchanged(node)]

        def owner_for_last(node: Node) -> Stage:  # which computes again what is the same in all shards
            return owner(node) if node in self._split or self._is_exchanged(node) else last

        for node in sums:
            owner(node).targets.update({node: None} if self._is_exchanged(node) else {})
        for node in self._results:
            owner_for_last(node).targets[node] = None
        self._find_reads(last, [*last.targets, *news], owner_for_last)
        for stage in reversed(stages[:-1]):
            self._find_reads(stage, [*stage.targets], owner)
        stages = [stage for stage in stages if stage.targets or stage is last]
        self._find_ends(stages)
        return stages

    def _is_exchanged(self, node: Node) -> bool:
        return node.operation is SHARD_SUM and self.shards.exchange is not None

    def _is_read(self, node: Node) -> bool:
        return self._is_exchanged(node) or (node in self._stored and not node.is_bundle)

    def _compile(self, device: targets.Device, progress: Progress | None) -> None:
        stands: dict[Node, Node] = {}
        for stage in self.stages:
            updates = self._updates if stage is self.stages[-1] else []
            built = replaced(
                [*stage.targets, *(node for _, node in updates)], {node: stands[node] for node in stage.reads}
            )
            count = len(stage.targets)
            changed = [(storage, node) for (storage, _), node in zip(updates, built[count:], strict=True)]
            inputs = [*(stands[node] for node in stage.reads), *self._arguments_of(stage, built)]
            split = [stands[node].attributes[0] for node in stage.reads if node in self._split]
            compiled: Any = device.compile  # takes the shards where a device `computes_shards`
            stage.program = compiled(
                built[:count], changed, inputs, flush=True, progress=progress, shards=self.shards.size,
                split=[*self._rows, self._number, *split],
            )  # fmt: skip
            for node, layout in zip(stage.targets, stage.program.layouts, strict=True):
                stands[node] = p.buffer(Storage(node.shape, node.dtype, name=node.name, layout=layout))
        shards = self.shards
        self._range = Storage.of(np.arange(shards.first, shards.first + shards.size, dtype=np.int32), int32)

    def run(self, rows: Sequence[Storage], whole: Sequence[Storage]) -> list[list[Storage]]:
        given = dict(zip([*self._rows, *self._whole, self._number], [*rows, *whole, self._range], strict=True))
        values: dict[Node, Storage] = {}
        sums = None if self.shards.exchange is None else _Sums(self.shards.exchange, self.stages)
        for number, stage in enumerate(self.stages):
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
                values.pop(node, None)
        if sums is not None:
            sums.finish(self._results)
        count = self.shards.size
        found = [
            parts_of(values[node], node.shape, count) if node in self._split else [values[node]] * count
            for node in self._results
        ]
        return [list(of_shard) for of_shard in zip(*found, strict=True)] if found else [[] for _ in range(count)]


class _Sums:
    """The sums of a run on their way through other processes.

    Those that the next stage reads leave at once. Others, as the gradients of weights, wait until they make a bucket;
    the processes exchange it while they go on computing.
    """

    def __init__(self, exchange: Exchange, stages: Sequence[Stage]) -> None:
        from trainer.engine.targets.cpu.flushing import flushing  # with it LLVM, which takes long to import

        self._exchange, self._stages = exchange, stages
        self._flushing = flushing
        self._bucket: dict[Node, Storage] = {}
        self._ends: dict[Node, Callable[[], None]] = {}

    def begin(self, sums: Mapping[Node, Storage], number: int) -> None:
        """Take the local sums of stage `number`."""
        following = self._stages[number + 1].reads if number + 1 < len(self._stages) else {}
        self._send({node: total for node, total in sums.items() if node in following})
        self._bucket.update({node: total for node, total in sums.items() if node not in following})
        if sum(total.nbytes for total in self._bucket.values()) >= BUCKET_BYTES:
            self._send_bucket()

    def finish(self, nodes: Iterable[Node]) -> None:
        """Wait for the sums among `nodes`."""
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
