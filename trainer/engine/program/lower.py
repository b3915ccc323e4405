"""From groups to launches: every stored node gets a buffer and the kernels that fill it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trainer.engine.graph import dtypes
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.program.body import Body, Load, stand_in
from trainer.engine.program.calls import emit_call
from trainer.engine.program.epilogues import Fused, fuse_epilogues
from trainer.engine.program.group import Group, group
from trainer.engine.program.launch import Address, Buffer, Launch
from trainer.engine.program.loops import Target, loop_launch
from trainer.engine.program.merge import merged
from trainer.engine.program.partition import Partition, Policy, partition
from trainer.engine.program.reductions import emit_reduction
from trainer.engine.program.rows import chained
from trainer.engine.program.schedule import schedule
from trainer.engine.program.spec import Instruction
from trainer.engine.program.statistics import with_statistics
from trainer.engine.program.tidy import tidy
from trainer.engine.program.views import View, identity, is_dense, strides_over
from trainer.engine.targets.cpu import defaults

Numerics = Literal["exact", "fast"]
"""How sums are formed (docs/engine.md): decided before the first step, by nothing but the user."""

Bfloat16 = Literal["pairs", "tiles"]
"""How sums of bfloat16 products are formed: by pairs on every processor, or as AMX does. Decided likewise."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a program must deliver: results in memory of their own, and new values of states, updated in place; and in
    which numerics classes.
    """

    results: tuple[Node, ...]
    updates: tuple[tuple[Storage, Node], ...] = ()
    numerics: Numerics = "exact"
    bfloat16: Bfloat16 = "pairs"


@dataclass
class Lowered:
    """Launches in order, and where results ended up (one buffer and layout for each result)."""

    launches: list[Launch]
    results: list[Buffer]
    result_layouts: list[Layout]
    leaves: dict[Node, Buffer]


def lower(
    request: Request,
    policy: Policy,
    choose: Callable[[Any], Any] = defaults.choose,
    progress: Callable[[int, int, str], None] | None = None,
) -> Lowered:
    """Partition, group and render-ready launches of a graph; `choose` picks the parameters of each template.

    `progress` is called before each launch is planned; how many kernels there will be is not known yet: 0.
    """
    return Lowering(request, policy, choose, progress).run()


@dataclass
class Lowering:
    """The state of one lowering; calls (contractions, windows, indices) add themselves through `emit`, `buffer_of`,
    `dense`.
    """

    request: Request
    policy: Policy
    choose: Callable[[Any], Any]
    progress: Callable[[int, int, str], None] | None = None
    launches: list[Launch] = field(default_factory=list)
    buffers: dict[Node, Buffer] = field(default_factory=dict)
    leaves: dict[Node, Buffer] = field(default_factory=dict)
    packed: dict[object, Buffer] = field(default_factory=dict)
    relayouts: dict[tuple[Node, Layout], Buffer] = field(default_factory=dict)
    plan: Partition = field(init=False)

    def run(self) -> Lowered:
        targets = [node for _, node in self.request.updates]
        outputs = [*self.request.results, *targets]
        policy = self.policy
        if self.request.numerics == "fast":
            policy = replace(policy, prologues=False)  # Winograd's kernels transform their input as it lies
        self.plan = partition(topological(outputs), outputs, policy, self._update_layouts())
        for node in self.plan.order:
            if node.operation.family == "leaf":
                storage = node.attributes[0]
                self.leaves[node] = self.buffers[node] = Buffer(node.size, node.dtype, storage.name or "leaf", storage)
        groups, fused = fuse_epilogues(group(self.plan), self.plan, set(outputs))
        self._place_results()
        self._place_updates(groups, fused)
        for number, item in enumerate(groups):
            if self.progress is not None:
                self.progress(0, 0, f"planning {number} of {len(groups)}")
            if item.kind == "loop":
                self._emit_loop(item)
            elif item.kind == "reduction":
                emit_reduction(self, item)
            else:
                emit_call(self, item.roots[0], fused.get(item.roots[0]))
        results, layouts = self._copy_results()
        self._copy_updates()
        launches = with_statistics(schedule(self.launches), self.choose)
        return Lowered(merged(chained(launches)), results, layouts, self.leaves)

    # Buffers

    def buffer_of(self, node: Node) -> Buffer:
        """The buffer of a stored node; made in the arena when it is first asked for."""
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = Buffer(node.size, node.dtype, node.name, shape=node.shape)
        return buffer

    def temporary(self, size: int, dtype: dtypes.DType, label: str) -> Buffer:
        return Buffer(size, dtype, label)

    def emit(self, launch: Launch) -> None:
        self.launches.append(launch)

    def place(self, loads: Sequence[Load]) -> None:
        """Make sure that everything that is read has a buffer."""
        for load in loads:
            if load.base is not None:
                self.buffer_of(load.base)

    def address(self, load: Load) -> Address:
        """Where `load` begins."""
        assert load.base is not None
        return Address(self.buffer_of(load.base), load.offset * load.base.dtype.itemsize)

    def as_it_lies(self, node: Node) -> tuple[Address, tuple[int, ...]]:
        """Where a node that has a view begins, and its strides, for kernels that take any."""
        view = self.plan.views[node]
        return Address(self.buffer_of(view.base), view.offset * node.dtype.itemsize), view.strides

    def dense(
        self, node: Node, wanted: Callable[[tuple[int, ...]], bool], layout: Layout
    ) -> tuple[Buffer, int, tuple[int, ...]]:
        """(buffer, element offset, strides) of `node`; copied into `layout` unless `wanted(strides)` holds."""
        view = self.plan.views[node]
        if wanted(view.strides):
            return self.buffer_of(view.base), view.offset, view.strides
        strides = layout.strides(node.shape)
        copy = self.relayouts.get((node, layout))
        if copy is None:
            copy = self.relayouts[node, layout] = self.temporary(node.size, node.dtype, f"{node.name} relayout")
            self.copy(view, node, copy, strides, "relayout")
        return copy, 0, strides

    def copy(self, view: View, node: Node, target: Buffer, strides: tuple[int, ...], label: str) -> None:
        """Store `node`, read through `view`, into `target` laid out by `strides`."""
        body = [Instruction("load", (), node.dtype, (0,))]
        load = Load(view.base, view.offset, view.strides)
        self.emit(loop_launch(node.shape, body, [load], [Target(target, 0, strides, 0)], self._with(load), label))

    def _with(self, *loads: Load) -> dict[Node, Buffer]:
        return {load.base: self.buffer_of(load.base) for load in loads if load.base is not None}

    # Results and updates

    def _update_layouts(self) -> dict[Node, Layout]:
        return {node: storage.layout for storage, node in self.request.updates}

    def _place_results(self) -> None:
        """Stored results are computed straight into their memory."""
        roots = set(self.plan.roots)
        for index, node in enumerate(self.request.results):
            if node in roots and node not in self.buffers:
                self.buffers[node] = Buffer(node.size, node.dtype, f"result {index}", result=index)

    def _place_updates(self, groups: Sequence[Group], fused: Mapping[Node, Fused]) -> None:
        """New values of states are computed straight into the state's memory where nothing reads the old value
        afterwards.
        """
        owner = {root: index for index, item in enumerate(groups) for root in item.roots}
        last_read: dict[Storage, int] = {}
        for index, item in enumerate(groups):
            for node in item.reads:
                if node.operation.family == "leaf":
                    last_read[node.attributes[0]] = index
        copied_leaves = {
            self.plan.views[node].base.attributes[0]
            for node in (*self.request.results, *(node for _, node in self.request.updates))
            if node in self.plan.views and self.plan.views[node].base.operation.family == "leaf"
        }
        for storage, node in self.request.updates:
            position = owner.get(node)
            if position is None or node in self.buffers or storage in copied_leaves:
                continue
            item = groups[position]
            direct = last_read.get(storage, -1) <= position and _lies_alike(node, storage, self.plan)
            if direct and _reads_only_what_it_writes(item, fused.get(node), storage, self.plan):
                self.buffers[node] = Buffer(node.size, node.dtype, storage.name or "state", storage)

    def _copy_results(self) -> tuple[list[Buffer], list[Layout]]:
        buffers, layouts = [], []
        for index, node in enumerate(self.request.results):
            own = self.buffers.get(node)
            if own is not None and own.result == index:
                layouts.append(self.plan.layouts[node])
            else:
                own = Buffer(node.size, node.dtype, f"result {index}", result=index)
                layout = Layout.row_major(node.ndim)
                self.copy(self.plan.views[node], node, own, layout.strides(node.shape), "result")
                layouts.append(layout)
            buffers.append(own)
        return buffers, layouts

    def _copy_updates(self) -> None:
        """Values that could not be computed in place: read them all before the first state changes, then store them."""
        waiting: list[tuple[View, Node, Buffer, tuple[int, ...]]] = []
        for storage, node in self.request.updates:
            own = self.buffers.get(node)
            if own is not None and own.storage is storage:
                continue
            view = self.plan.views[node]
            target = Buffer(node.size, node.dtype, storage.name or "state", storage)
            if view.base.operation.family == "leaf" and view.base.attributes[0].is_state:
                kept = self.temporary(node.size, node.dtype, "old value")
                strides = Layout.row_major(node.ndim).strides(node.shape)
                self.copy(view, node, kept, strides, "keep")
                stored = stand_in(node)
                self.buffers[stored] = kept
                view = View(stored, 0, strides)
            waiting.append((view, node, target, storage.layout.strides(node.shape)))
        for view, node, target, strides in waiting:
            self.copy(view, node, target, strides, "update")

    # Loops

    def _emit_loop(self, item: Group) -> None:
        body = item.body
        assert body is not None
        targets = []
        for root in item.roots:
            strides = strides_over(body.shape, root.shape, self.plan.layouts[root])
            position = body.root(root)
            targets.append(Target(self.buffer_of(root), 0, strides, position))
        self.place(body.loads)
        instructions, loads, targets = tidy(body, targets)
        label = "+".join(root.name for root in item.roots[:3])
        self.emit(loop_launch(body.shape, instructions, loads, targets, self.buffers, label))

    def emit_expression(self, node: Node, target: Buffer, offset: int, strides: tuple[int, ...], label: str) -> None:
        """Compute `node` (read from memory where it has a view) into part of `target`."""
        body = Body(node.shape, self.plan.views)
        position = body.value(node, identity(node.shape))
        self.place(body.loads)
        instructions, loads, targets = tidy(body, [Target(target, offset, strides, position)])
        self.emit(loop_launch(node.shape, instructions, loads, targets, self.buffers, label))

    def fill(self, target: Buffer, value: int | float | bool) -> None:
        """Store one value everywhere in `target`."""
        body = [Instruction("constant", (), target.dtype, (value,))]
        self.emit(loop_launch((target.size,), body, [], [Target(target, 0, (1,), 0)], {}, "fill"))


def _lies_alike(node: Node, storage: Storage, plan: Partition) -> bool:
    """Whether `node` is stored in the physical order of `storage`."""
    return is_dense(node.shape, storage.layout.strides(node.shape)) == is_dense(
        node.shape, plan.layouts[node].strides(node.shape)
    )


def _reads_only_what_it_writes(item: Group, fused: Fused | None, storage: Storage, plan: Partition) -> bool:
    """Whether a loop, or a contraction in its epilogue, reads `storage` only at the element that it is about to
    write.
    """
    if fused is not None:
        loads, shape = fused.loads, fused.root.shape
        if any(_is_in(plan.views[source].base, storage) for source in fused.contraction.inputs):
            return False
    elif item.kind == "loop":
        assert item.body is not None
        loads, shape = tuple(item.body.loads), item.shape
    else:
        return False
    strides = storage.layout.strides(storage.shape)
    for load in loads:
        if load.base is not None and _is_in(load.base, storage):
            if shape != storage.shape or load.offset:
                return False
            if any(a != b for a, b, n in zip(load.strides, strides, shape, strict=True) if n != 1):
                return False
    return True


def _is_in(node: Node, storage: Storage) -> bool:
    return node.operation.family == "leaf" and node.attributes[0] is storage
