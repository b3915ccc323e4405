"""Lowers a graph to items of work: every stored node gets a buffer and the items that compute it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node, Shape, topological
from trainer.engine.graph.primitives import outputs_of
from trainer.engine.graph.primitives.host import HOST_CALLS
from trainer.engine.graph.primitives.scan import Step
from trainer.engine.graph.primitives.table import axes_of
from trainer.engine.graph.rewrite import replaced
from trainer.engine.graph.simplify import uniform_value
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.program.body import Body, Load, load_dtypes, tidy
from trainer.engine.program.epilogues import Fused, fuse_epilogues, narrowed
from trainer.engine.program.group import Group, group
from trainer.engine.program.loops import copy, fill, loop, repeat_of
from trainer.engine.program.partition import COPIED, SHARD_SUM, Partition, Policy, partition
from trainer.engine.program.prologues import applied_to
from trainer.engine.program.shards import over_shards, split_nodes
from trainer.engine.program.spec import Instruction
from trainer.engine.program.target import Target
from trainer.engine.program.views import NodeView, identity, is_dense, strides_over, view_through
from trainer.engine.program.work import KINDS, NOTHING, Buffer, Call, Reduce, StandIn, View, Work


@dataclass(frozen=True, slots=True)
class Request:
    """The outputs of a program: results in their own memory, and new values of states, updated in place.

    With `shards`, the graph describes one shard of a batch, and the program computes this many shards. Storages in
    `split`, and results that depend on the shard, hold the values of all shards, one shard after the other.
    """

    results: tuple[Node, ...]
    updates: tuple[tuple[Storage, Node], ...] = ()
    shards: int | None = None
    split: frozenset[Storage] = frozenset()


@dataclass
class Program:
    """The items in order, and the buffer and the layout of each result."""

    works: list[Work]
    results: list[Buffer]
    layouts: list[Layout]


def build(request: Request, policy: Policy, target: Target) -> Program:
    """Partitions and groups a graph into items of work."""
    return _Builder(request, policy, target).run()


@dataclass
class _Builder:
    """The state of one `build`."""

    request: Request
    policy: Policy
    target: Target
    works: list[Work] = field(default_factory=list)
    buffers: dict[Node, Buffer] = field(default_factory=dict)
    plan: Partition = field(init=False)
    joined: dict[Node, View] = field(default_factory=dict)
    """Outputs that are computed in the memory of a concatenation, and their views of it."""

    def run(self) -> Program:
        outputs = [*self.request.results, *(node for _, node in self.request.updates)]
        given = {node: storage.layout for storage, node in self.request.updates}
        groups, fused = self._groups(outputs, given)
        for node in self.plan.order:
            if node.operation.family == "leaf":
                storage = node.attributes[0]
                self.buffers[node] = Buffer(node.size, node.dtype, storage.name or "leaf", storage)
        self._place_results()
        self._place_updates(groups, fused)
        self._place_parts()
        for item in groups:
            first = len(self.works)
            self._add(item, fused.get(item.roots[0]))
            for work in self.works[first:]:
                work.line = item.roots[0].line
        results, layouts = self._copy_results()
        self._copy_updates()
        if self.request.shards is not None:
            self.works = over_shards(self.works, self.request.split, self.request.shards)
        return Program(self.works, results, layouts)

    def _groups(self, outputs: Sequence[Node], given: Mapping[Node, Layout]) -> tuple[list[Group], dict[Node, Fused]]:
        """Partitions and groups the graph; repeats both while contractions can store fewer bytes (`narrowed`)."""
        order, narrow, found = topological(outputs), set[Node](), set[Node]()
        while True:
            narrow |= found
            self.plan = partition(order, outputs, self.policy, given, self.target.takes_prologue, narrow)
            self.plan.split = frozenset(split_nodes(self.plan.order, self.request.split))
            groups, fused = fuse_epilogues(group(self.plan), self.plan)
            found = narrowed(groups, self.plan)
            if found <= narrow:
                return groups, fused

    # Operands

    def buffer_of(self, node: Node) -> Buffer:
        """The buffer of a stored node; created in the arena on first use."""
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = Buffer(node.size, node.dtype, node.name, shape=node.shape)
        return buffer

    def _read(self, node: Node) -> View:
        """The operand that reads `node`, which has a view, with its strides."""
        view = self.plan.views[node]
        return View(self.buffer_of(view.base), node.dtype, node.shape, view.strides, view.offset, node.name)

    def _write(self, node: Node) -> View:
        """The operand that writes the stored node `node`."""
        if node in self.joined:
            return self.joined[node]
        strides = self.plan.layouts[node].strides(node.shape)
        return View(self.buffer_of(node), node.dtype, node.shape, strides, 0, node.name)

    def _view(self, load: Load, dtype: DType, shape: Shape) -> View:
        buffer = None if load.base is None else self.buffer_of(load.base)
        return View(buffer, dtype, shape, load.strides, load.offset)

    def _needed(self, body: Body, stored: Sequence[int]) -> tuple[list[Instruction], list[View], list[int]]:
        """The part of a body that `stored` depends on: instructions, operands, and positions of `stored`."""
        instructions, loads, moved = tidy(body, stored)
        dtypes = load_dtypes(instructions, len(loads))
        reads = [self._view(load, dtype, body.shape) for load, dtype in zip(loads, dtypes, strict=True)]
        return instructions, reads, moved

    # Items

    def _add(self, item: Group, fused: Fused | None) -> None:
        root = item.roots[0]
        if item.kind == "loop":
            self._add_loop(item)
        elif item.kind == "reduction":
            self._add_reduction(item)
        elif root.name == "scan":
            self._add_scan(root, item.roots[1:])
        elif root.is_bundle:
            self._add_bundle(root, item.roots[1:])
        elif root.name in COPIED:
            self._add_parts(root)
        elif root.name == SHARD_SUM:
            reads, writes = (self._read(root.inputs[0]),), (self._write(root),)
            self.works.append(Work("collective", Call.of(root), reads, writes, root.name))
        else:
            self._add_call(root, fused)

    def _add_loop(self, item: Group) -> None:
        body = item.body
        assert body is not None
        stored = [body.root(root) for root in item.roots]
        strides = [strides_over(body.shape, root.shape, self.plan.layouts[root]) for root in item.roots]
        instructions, reads, stored = self._needed(body, stored)
        writes = [
            View(self.buffer_of(root), root.dtype, body.shape, steps)
            for root, steps in zip(item.roots, strides, strict=True)
        ]
        self.works.append(loop(body.shape, instructions, reads, writes, stored, _label(item)))

    def _add_reduction(self, item: Group) -> None:
        body = item.body
        assert body is not None
        stored = [body.value(root.inputs[0], identity(body.shape)) for root in item.roots]
        instructions, reads, stored = self._needed(body, stored)
        names = tuple(root.name.removeprefix("reduce_") for root in item.roots)
        spec, writes = Reduce(names, axes_of(item.roots[0].attributes)), tuple(map(self._write, item.roots))
        label = _label(item)
        self.works.append(
            Work("reduction", spec, tuple(reads), writes, label, body.shape, tuple(instructions), tuple(stored))
        )

    def _add_parts(self, root: Node) -> None:
        """Adds a padding or a concatenation: one loop for each part."""
        target = self._write(root)
        assert target.buffer is not None
        if root.name == "pad" and root.size != root.inputs[0].size:
            self.works.append(fill(target.buffer, root.attribute("value")))
        for source, offset, strides in _parts(root, target.strides):
            if _gradient_of_attention(source, self.plan) in self.joined:
                continue
            body = Body(source.shape, self.plan.views)
            stored = [body.value(source, identity(source.shape))]
            instructions, reads, stored = self._needed(body, stored)
            write = View(target.buffer, root.dtype, source.shape, strides, offset)
            self.works.append(loop(source.shape, instructions, reads, [write], stored, root.name))

    def _add_call(self, root: Node, fused: Fused | None) -> None:
        """Adds a primitive that is one item, with its fused prologue and epilogue."""
        node = fused.contraction if fused else root
        first = node.inputs[0]
        applied = None if first in self.plan.views else applied_to(first, self.plan.views)
        reads = [self._read(source) for source in node.inputs[1 if applied else 0 :]]
        if applied:
            reads.insert(0, self._view(applied.source, first.dtype, first.shape))
        epilogue, prologue = fused.epilogue if fused else NOTHING, applied.prologue if applied else NOTHING
        for loads, operands, shape in (
            (fused.loads if fused else (), epilogue.operands, node.shape),
            (applied.loads if applied else (), prologue.operands, first.shape),
        ):
            reads += [self._view(load, each.dtype, shape) for load, each in zip(loads, operands, strict=True)]
        strides = self.plan.layouts[node].strides(node.shape)  # the root may have merged its axes
        kind, call = KINDS[node.name], Call.of(node)
        write = View(self.buffer_of(root), root.dtype, node.shape, strides, 0, root.name)
        self.works.append(Work(kind, call, tuple(reads), (write,), node.name, epilogue=epilogue, prologue=prologue))

    def _add_bundle(self, bundle: Node, outputs: Sequence[Node]) -> None:
        """Adds an item with several outputs; unread outputs get memory, too."""
        known = {node.attributes[0]: node for node in outputs}
        writes: list[View] = []
        for index, (shape, dtype) in enumerate(outputs_of(bundle)):
            if index in known:
                writes.append(self._write(known[index]))
            else:
                label = f"unused output of {bundle.name}"
                unused = Buffer(math.prod(shape), dtype, label, shape=shape, unread=True)
                writes.append(View(unused, dtype, shape, Layout.row_major(len(shape)).strides(shape)))
        reads = tuple([self._read(source) for source in bundle.inputs])
        call, effect = Call.of(bundle), bundle.operation.effect
        self.works.append(Work(KINDS[bundle.name], call, reads, tuple(writes), bundle.name, effect=effect))

    def _add_scan(self, bundle: Node, outputs: Sequence[Node]) -> None:
        """Adds a repeat of one step's items. They are built once, with stand-ins for the arrays they read and write."""
        step: Step = bundle.attributes[0]
        length, reverse = bundle.attributes[1:]
        places, reached = step.needed([node.attributes[0] for node in outputs])
        stand_ins: dict[Node, StandIn] = {}
        targets = {node.attributes[0]: self._write(node) for node in outputs}

        def sliced(storage: Storage, view: View, is_written: bool) -> StandIn:
            pitch = view.strides[0]
            first = replace(view, offset=view.offset + (length - 1) * pitch) if reverse else view
            return StandIn(storage, first, -pitch if reverse else pitch, is_written)

        constants, carried, inputs = step.split([*zip(step.parameters, bundle.inputs, strict=True)])
        for node, source in constants:
            if node in reached:
                view, layout = self._with_dense_parts(self._read(source), 0)
                storage = Storage(node.shape, node.dtype, name=node.name, layout=layout)
                stand_ins[node] = StandIn(storage, view, 0, False)
        for node, source in inputs:
            if node in reached:
                view, layout = self._with_dense_parts(self._read(source), 1)
                stand_ins[node] = sliced(Storage(node.shape, node.dtype, name="slice", layout=layout), view, False)
        updates: list[StandIn] = []
        for place in places:
            node = step.computed[place]
            if place >= step.carried:
                updates.append(sliced(Storage(node.shape, node.dtype, name="output"), targets[place], True))
                continue
            view = targets.get(place) or _row_major(Buffer(node.size, node.dtype, "carried", shape=node.shape), node)
            parameter, source = carried[place]
            self.works.append(copy(self._read(source), view, "carry"))
            storage = Storage(node.shape, node.dtype, name="carried", is_state=True)
            updates.append(StandIn(storage, view, 0, True))
            stand_ins[parameter] = updates[-1]
        leaves = {node: p.buffer(each.storage) for node, each in stand_ins.items()}
        news = self.target.legal(replaced([step.computed[place] for place in places], leaves))
        request = Request((), tuple([(each.storage, new) for each, new in zip(updates, news, strict=True)]))
        parts = _Builder(request, self.policy, self.target).run().works
        bound = dict.fromkeys([*stand_ins.values(), *updates])
        if parts:  # carried values that no step changes need no items
            self.works.append(repeat_of(parts, list(bound), length, f"scan {length}"))

    def _with_dense_parts(self, view: View, axes: int) -> tuple[View, Layout]:
        """Returns `view` or a copy of it, and the layout of its slices along the first `axes` axes, which are dense."""
        layout = is_dense(view.shape[axes:], view.strides[axes:])
        if layout is not None:
            return view, layout
        buffer = Buffer(view.size, view.dtype, f"{view.name} relayout", shape=view.shape)
        target = replace(view, buffer=buffer, strides=Layout.row_major(view.ndim).strides(view.shape), offset=0)
        self.works.append(copy(view, target, "relayout"))
        return target, Layout.row_major(view.ndim - axes)

    # Results and updates

    def _place_results(self) -> None:
        """Places stored results in their final memory, so that they need no copy."""
        roots = set(self.plan.roots)
        for index, node in enumerate(self.request.results):
            if node in roots and node not in self.buffers:
                self.buffers[node] = Buffer(node.size, node.dtype, f"result {index}", result=index)

    def _place_updates(self, groups: Sequence[Group], fused: Mapping[Node, Fused]) -> None:
        """Places new values of states in the state's memory if nothing reads the old value later."""
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
        calls = [node for node in self.plan.roots if node.name in HOST_CALLS]
        hosted = set(topological([source for node in calls for source in node.inputs]))
        for storage, node in self.request.updates:
            position = owner.get(node)
            if position is None or node in self.buffers or storage in copied_leaves:
                continue
            item = groups[position]
            if not hosted.isdisjoint(item.roots):
                continue  # the state must be unchanged if the host call fails
            direct = last_read.get(storage, -1) <= position and _lies_alike(node, storage, self.plan)
            if direct and _reads_only_what_it_writes(item, fused.get(node), storage, self.plan):
                self.buffers[node] = Buffer(node.size, node.dtype, storage.name or "state", storage)

    def _place_parts(self) -> None:
        """Places gradients of attention that only a concatenation reads in the memory of the concatenation."""
        for root in self.plan.roots:
            if root.name == "concatenate":
                strides = self.plan.layouts[root].strides(root.shape)
                for source, offset, steps in _parts(root, strides):
                    part = _gradient_of_attention(source, self.plan)
                    if part is None or part in self.plan.results:
                        continue
                    view = view_through(p.reshape(source, part.shape), NodeView(root, offset, steps))
                    if view is not None and view.strides[3] == 1:
                        buffer = self.buffer_of(root)
                        self.joined[part] = View(buffer, part.dtype, part.shape, view.strides, view.offset, part.name)

    def _copy_results(self) -> tuple[list[Buffer], list[Layout]]:
        buffers, layouts = [], []
        for index, node in enumerate(self.request.results):
            own = self.buffers.get(node)
            if own is not None and own.result == index:
                layouts.append(self.plan.layouts[node])
            else:
                own = Buffer(node.size, node.dtype, f"result {index}", result=index)
                layout = Layout.row_major(node.ndim)
                self.works.append(copy(self._read(node), _dense(own, node, layout), "result"))
                layouts.append(layout)
            buffers.append(own)
        return buffers, layouts

    def _copy_updates(self) -> None:
        """Copies values that were not computed in place; reads old values of states before the first state changes."""
        waiting: list[tuple[View, View]] = []
        for storage, node in self.request.updates:
            own = self.buffers.get(node)
            if own is not None and own.storage is storage:
                continue
            source, base = self._read(node), self.plan.views[node].base
            if base.operation.family == "leaf" and base.attributes[0].is_state:
                buffer = Buffer(node.size, node.dtype, "old value")
                kept = _dense(buffer, node, Layout.row_major(node.ndim))
                self.works.append(copy(source, kept, "keep"))
                source = kept
            target = Buffer(node.size, node.dtype, storage.name or "state", storage)
            waiting.append((source, _dense(target, node, storage.layout)))
        self.works += [copy(source, target, "update") for source, target in waiting]


def _label(item: Group) -> str:
    return "+".join(root.name for root in item.roots[:3])


def _dense(buffer: Buffer, node: Node, layout: Layout) -> View:
    return View(buffer, node.dtype, node.shape, layout.strides(node.shape))


def _row_major(buffer: Buffer, node: Node) -> View:
    return _dense(buffer, node, Layout.row_major(node.ndim))


def _parts(node: Node, strides: tuple[int, ...]) -> Iterator[tuple[Node, int, tuple[int, ...]]]:
    """Yields each input of a pad or concatenation, its offset in the output, and its strides there."""
    if node.name == "pad":
        low, interior = node.attribute("low"), node.attribute("interior")
        offset = sum(step * before for step, before in zip(strides, low, strict=True))
        yield node.inputs[0], offset, tuple(step * (gap + 1) for step, gap in zip(strides, interior, strict=True))
        return
    axis, start = node.attribute("axis"), 0
    for source in node.inputs:
        yield source, start * strides[axis], strides
        start += source.shape[axis]


def _gradient_of_attention(part: Node, plan: Partition) -> Node | None:
    """The gradient of a query, key or value, if `part` of a concatenation consists of it and nothing else reads it.

    The part is the gradient plus 0, which makes zeros positive; the zeros of the gradient are positive already.
    """
    if part.name != "add" or uniform_value(part.inputs[1]) != 0:
        return None
    part = part.inputs[0]
    while part.name in ("reshape", "cast") and part.dtype is part.inputs[0].dtype and len(plan.users[part]) == 1:
        part = part.inputs[0]
    is_gradient = part.name == "output" and part.inputs[0].name == "attention_gradient" and part.attributes[0] < 3
    return part if is_gradient and len(plan.users[part]) == 1 else None


def _lies_alike(node: Node, storage: Storage, plan: Partition) -> bool:
    """Whether `node` is stored in the same physical order as `storage`."""
    return is_dense(node.shape, storage.layout.strides(node.shape)) == is_dense(
        node.shape, plan.layouts[node].strides(node.shape)
    )


def _reads_only_what_it_writes(item: Group, fused: Fused | None, storage: Storage, plan: Partition) -> bool:
    """Whether a loop or an epilogue reads `storage` only at the element that it then writes."""
    if fused is not None:
        loads, shape = fused.loads, fused.contraction.shape
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
