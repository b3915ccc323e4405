"""From groups to launches: every stored node gets a buffer and the kernels that fill it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer.engine.autotune import defaults
from trainer.engine.compile.body import Body, Load, prune
from trainer.engine.compile.calls import emit_call
from trainer.engine.compile.epilogues import fuse_epilogues
from trainer.engine.compile.group import Group, group
from trainer.engine.compile.launch import Address, Buffer, Launch
from trainer.engine.compile.loops import Target, loop_launch, reduction_block, reduction_launch
from trainer.engine.compile.partition import Partition, Policy, partition
from trainer.engine.compile.views import View, identity, is_dense
from trainer.engine.graph import dtypes
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.kernels.spec import Instruction


@dataclass(frozen=True, slots=True)
class Request:
    """What a program must deliver: results in memory of their own, and new values of states, updated in place."""

    results: tuple[Node, ...]
    updates: tuple[tuple[Storage, Node], ...] = ()


@dataclass
class Lowered:
    """Launches in order, and where results ended up (one buffer and layout for each result)."""

    launches: list[Launch]
    results: list[Buffer]
    result_layouts: list[Layout]
    leaves: dict[Node, Buffer]


def lower(request: Request, policy: Policy, choose: Callable[[Any], Any] = defaults.choose) -> Lowered:
    """Partition, group and render-ready launches of a graph; `choose` picks the parameters of each template."""
    return Lowering(request, policy, choose).run()


@dataclass
class Lowering:
    """The state of one lowering; calls (contractions, windows, indices) add themselves through `emit`, `buffer_of`, `dense`."""

    request: Request
    policy: Policy
    choose: Callable[[Any], Any]
    launches: list[Launch] = field(default_factory=list)
    buffers: dict[Node, Buffer] = field(default_factory=dict)
    leaves: dict[Node, Buffer] = field(default_factory=dict)
    packed: dict[object, Buffer] = field(default_factory=dict)
    relayouts: dict[tuple[Node, Layout], Buffer] = field(default_factory=dict)
    plan: Partition = field(init=False)

    def run(self) -> Lowered:
        targets = [node for _, node in self.request.updates]
        outputs = [*self.request.results, *targets]
        self.plan = partition(topological(outputs), outputs, self.policy, self._update_layouts())
        for node in self.plan.order:
            if node.operation.family == "leaf":
                storage = node.attributes[0]
                self.leaves[node] = self.buffers[node] = Buffer(node.size, node.dtype, storage.name or "leaf", storage)
        groups, fused = fuse_epilogues(group(self.plan), self.plan, set(outputs))
        self._place_results()
        self._place_updates(groups)
        for item in groups:
            if item.kind == "loop":
                self._emit_loop(item)
            elif item.kind == "reduction":
                self._emit_reduction(item)
            else:
                emit_call(self, item.roots[0], fused.get(item.roots[0]))
        results, layouts = self._copy_results()
        self._copy_updates()
        return Lowered(self.launches, results, layouts, self.leaves)

    # Buffers

    def buffer_of(self, node: Node) -> Buffer:
        """The buffer of a stored node; made in the arena when it is first asked for."""
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = Buffer(node.size, node.dtype, node.name)
        return buffer

    def temporary(self, size: int, dtype: dtypes.DType, label: str) -> Buffer:
        return Buffer(size, dtype, label)

    def emit(self, launch: Launch) -> None:
        self.launches.append(launch)

    def address(self, load: Load) -> Address:
        """Where `load` begins."""
        assert load.base is not None
        return Address(self.buffer_of(load.base), load.offset * load.base.dtype.itemsize)

    def dense(self, node: Node, wanted: Callable[[tuple[int, ...]], bool], layout: Layout) -> tuple[Buffer, int, tuple[int, ...]]:
        """(buffer, element offset, strides) of `node`; copied into `layout` unless `wanted(strides)` holds as it lies."""
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
        self.emit(
            loop_launch(node.shape, body, [load], [Target(target, 0, strides, 0)], self._with(load), label)
        )

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

    def _place_updates(self, groups: Sequence[Group]) -> None:
        """New values of states are computed straight into the state's memory where nothing reads the old value afterwards."""
        owner = {root: index for index, item in enumerate(groups) for root in item.roots}
        last_read: dict[Storage, int] = {}
        for index, item in enumerate(groups):
            for node in item.reads:
                if node.operation.family == "leaf":
                    last_read[node.attributes[0]] = index
        result_leaves = {
            self.plan.views[node].base.attributes[0]
            for node in self.request.results
            if node in self.plan.views and self.plan.views[node].base.operation.family == "leaf"
        }
        for storage, node in self.request.updates:
            index = owner.get(node)
            if index is None or node in self.buffers or storage in result_leaves:
                continue
            item = groups[index]
            if item.kind == "loop" and last_read.get(storage, -1) <= index and self._same_elements(item, storage):
                if is_dense(node.shape, storage.layout.strides(node.shape)) == self._dense_layout(node):
                    self.buffers[node] = Buffer(node.size, node.dtype, storage.name or "state", storage)

    def _dense_layout(self, node: Node) -> Layout | None:
        return is_dense(node.shape, self.plan.layouts[node].strides(node.shape))

    def _same_elements(self, item: Group, storage: Storage) -> bool:
        """Whether a loop reads `storage` only at the element that it is about to write."""
        assert item.body is not None
        strides = storage.layout.strides(storage.shape)
        for load in item.body.loads:
            if load.base is not None and load.base.operation.family == "leaf" and load.base.attributes[0] is storage:
                if item.shape != storage.shape or load.offset:
                    return False
                if any(a != b for a, b, n in zip(load.strides, strides, item.shape, strict=True) if n != 1):
                    return False
        return True

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
                stored = self._stand_in(node)
                self.buffers[stored] = kept
                view = View(stored, 0, strides)
            waiting.append((view, node, target, storage.layout.strides(node.shape)))
        for view, node, target, strides in waiting:
            self.copy(view, node, target, strides, "update")

    @staticmethod
    def _stand_in(node: Node) -> Node:
        """A key of its own for a temporary that holds `node`'s value; never enters a graph."""
        stand_in = Node.__new__(Node)
        stand_in.operation, stand_in.inputs, stand_in.attributes = node.operation, node.inputs, node.attributes
        stand_in.shape, stand_in.dtype, stand_in.sequence = node.shape, node.dtype, node.sequence
        return stand_in

    # Loops

    def _emit_loop(self, item: Group) -> None:
        body = item.body
        assert body is not None
        targets = []
        for root in item.roots:
            layout = self.plan.layouts[root]
            shape = body.shape if root.shape != body.shape else root.shape
            strides = Layout.row_major(len(shape)).strides(shape) if root.shape != shape else layout.strides(shape)
            position = body.root(root)
            targets.append(Target(self.buffer_of(root), 0, strides, position))
        for load in body.loads:
            if load.base is not None:
                self.buffer_of(load.base)
        instructions, loads, targets = _tidy(body, targets)
        label = "+".join(root.name for root in item.roots[:3])
        self.emit(loop_launch(body.shape, instructions, loads, targets, self.buffers, label))

    def emit_expression(
        self, node: Node, target: Buffer, offset: int, strides: tuple[int, ...], label: str
    ) -> None:
        """Compute `node` (read from memory where it has a view) into part of `target`."""
        body = Body(node.shape, self.plan.views)
        position = body.value(node, identity(node.shape))
        for load in body.loads:
            if load.base is not None:
                self.buffer_of(load.base)
        instructions, loads, targets = _tidy(body, [Target(target, offset, strides, position)])
        self.emit(loop_launch(node.shape, instructions, loads, targets, self.buffers, label))

    def fill(self, target: Buffer, value: int | float | bool) -> None:
        """Store one value everywhere in `target`."""
        body = [Instruction("constant", (), target.dtype, (value,))]
        self.emit(loop_launch((target.size,), body, [], [Target(target, 0, (1,), 0)], {}, "fill"))

    # Reductions

    def _emit_reduction(self, item: Group) -> None:
        body = item.body
        assert body is not None
        first = item.roots[0]
        axes = first.attributes[0]
        axes = axes if isinstance(axes, tuple) else (axes,)
        shape = body.shape
        positions = [body.value(root.inputs[0], identity(shape)) for root in item.roots]
        for load in body.loads:
            if load.base is not None:
                self.buffer_of(load.base)
        instructions, loads, targets = _tidy(
            body, [Target(self.buffer_of(root), 0, (), position) for root, position in zip(item.roots, positions, strict=True)]
        )
        positions = [target.instruction for target in targets]
        reduced = [axis for axis in axes if shape[axis] != 1]
        kept = [axis for axis in range(len(shape)) if axis not in axes]
        names = [root.name.removeprefix("reduce_") for root in item.roots]
        if not all(_runs_as_one(load.strides, shape, reduced) for load in loads):
            instructions, loads, positions = self._lay_out_terms(item, shape, kept, reduced, instructions, loads, positions)
        length = 1
        for axis in reduced:
            length *= shape[axis]
        step = [load.strides[reduced[-1]] if reduced else 0 for load in loads]
        main = max(
            range(len(loads)),
            key=lambda i: sum(shape[a] for a in range(len(shape)) if loads[i].strides[a]),
            default=None,
        )
        lead = loads[main].strides if main is not None else (0,) * len(shape)
        order = sorted((a for a in kept if shape[a] != 1), key=lambda a: (-abs(lead[a]), a))
        column = bool(order) and bool(reduced) and abs(lead[reduced[-1]]) != 1 and lead[order[-1]] == 1 and shape[order[-1]] >= 8
        orientation = "column" if column else "row"
        arg = names[0].startswith("arg")
        block = (length + 15 & ~15) or 16 if arg else reduction_block(length)
        extents = [shape[a] for a in order]
        dense = Layout.row_major(len(kept)).strides(tuple(shape[a] for a in kept))
        placed = [dense[kept.index(a)] for a in order]
        inputs = [(load, (*[load.strides[a] for a in order], s)) for load, s in zip(loads, step, strict=True)]
        label = "+".join(root.name for root in item.roots[:3])
        blocks = max(1, -(-length // block))
        finals = [self.buffer_of(root) for root in item.roots]
        if any(root.size == 0 for root in item.roots):
            return
        if length == 0:
            for buffer, name in zip(finals, names, strict=True):
                self.fill(buffer, {"sum": 0, "prod": 1}[name])
            return
        if blocks == 1:
            outputs = [
                (position, name, buffer, (*placed, 0))
                for position, name, buffer in zip(positions, names, finals, strict=True)
            ]
            self.emit(
                reduction_launch(extents, length, orientation, block, instructions, inputs, outputs, self.buffers, label)
            )
            return
        count = first.size
        partials = [self.temporary(count * blocks, instructions[p].dtype, "partials") for p in positions]
        if orientation == "column":
            steps = (*placed, count)
        else:
            steps = (*[s * blocks for s in placed], 1)
        outputs = [
            (position, name, buffer, steps) for position, name, buffer in zip(positions, names, partials, strict=True)
        ]
        self.emit(
            reduction_launch(extents, length, orientation, block, instructions, inputs, outputs, self.buffers, label)
        )
        for root, name, partial, final in zip(item.roots, names, partials, finals, strict=True):
            stand_in = self._stand_in(root)
            self.buffers[stand_in] = partial
            load = Load(stand_in, 0, ())
            body2 = [Instruction("load", (), partial.dtype, (0,))]
            self.emit(
                reduction_launch(
                    extents, blocks, orientation, reduction_block(blocks), body2, [(load, steps)],
                    [(0, name, final, (*placed, 0))], self.buffers, f"{label} blocks",
                )
            )

    def _lay_out_terms(
        self,
        item: Group,
        shape: tuple[int, ...],
        kept: list[int],
        reduced: list[int],
        instructions: list[Instruction],
        loads: list[Load],
        positions: list[int],
    ) -> tuple[list[Instruction], list[Load], list[int]]:
        """Store what is reduced so that the reduced axes run as one: their order is the logical one, whatever the layout."""
        ones = [axis for axis in range(len(shape)) if axis not in kept and axis not in reduced]
        strides = Layout((*ones, *kept, *reduced)).strides(shape)
        size = 1
        for extent in shape:
            size *= extent
        targets, fresh, found = [], [], []
        for root, position in zip(item.roots, positions, strict=True):
            buffer = self.temporary(size, instructions[position].dtype, "terms")
            stand_in = self._stand_in(root.inputs[0])
            self.buffers[stand_in] = buffer
            targets.append(Target(buffer, 0, strides, position))
            fresh.append(Load(stand_in, 0, strides))
            found.append(Instruction("load", (), buffer.dtype, (len(found),)))
        self.emit(loop_launch(shape, instructions, loads, targets, self.buffers, "terms"))
        return found, fresh, list(range(len(found)))


def _tidy(body: Body, targets: Sequence[Target]) -> tuple[list[Instruction], list[Load], list[Target]]:
    """Only the instructions and operands that the targets need, renumbered."""
    kept, place = prune(body.instructions, [target.instruction for target in targets])
    used = sorted({instruction.attributes[0] for instruction in kept if instruction.operation == "load"})
    number = {old: new for new, old in enumerate(used)}
    instructions = [
        Instruction("load", (), step.dtype, (number[step.attributes[0]],)) if step.operation == "load" else step
        for step in kept
    ]
    moved = [Target(t.buffer, t.offset, t.strides, place[t.instruction]) for t in targets]
    return instructions, [body.loads[old] for old in used], moved


def _runs_as_one(strides: tuple[int, ...], shape: tuple[int, ...], axes: Sequence[int]) -> bool:
    """Whether stepping through `axes` in logical order is stepping through one axis."""
    return all(
        strides[outer] == strides[inner] * shape[inner] for outer, inner in zip(axes, axes[1:], strict=False)
    )
