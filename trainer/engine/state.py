"""State: the only kind of value that changes in place."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Set
from typing import Any

import numpy as np

from trainer.engine import history, targets, tracing
from trainer.engine.evaluation import compute
from trainer.engine.graph import lines
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Node, Shape
from trainer.engine.graph.storage import Storage
from trainer.engine.promotion import check_scalar
from trainer.engine.tensor import NO_HISTORY, NUMBERS, Tensor, as_tensor, stored_copy, watcher


class State(Tensor):
    """A value that `assign` changes: a parameter, a moment, a counter, a statistic.

    Its memory has a fixed address, so compiled programs update it in place. Handles created from an earlier value keep
    that value.

    Args:
        value: an array, a tensor or nested lists; copied.
        name: the state's name in errors and checkpoints.
        dtype: the dtype that `value` is converted to; None keeps the value's dtype.
    """

    is_state = True

    __slots__ = ("_leaf", "_pending", "_pending_since", "_storage", "name")

    _leaf: weakref.ref[Node] | None
    """The node whose value is the memory. Only graphs keep it alive, not the state."""

    _pending: Node | None
    """The node of an assigned value that is not in the memory yet."""

    def __init__(self, value: Any, name: str = "", dtype: DType | None = None) -> None:
        self.name = name
        self._leaf = self._pending = None
        self._pending_since = NO_HISTORY
        self._storage = stored_copy(value, dtype, name, "State")
        self._storage.is_state = True

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node of the current value; while a step is traced, the recorder's node."""
        recorder = tracing.active()
        if recorder is not None:
            return recorder.on_state_read(self)
        if self._pending is not None:
            return self._pending
        node = self._leaf_node()
        if node is None:
            with targets.lock:
                node = self._leaf_node()
                if node is None:
                    node = p.buffer(self._storage)
                    self._take(node)
        return node

    def _leaf_node(self) -> Node | None:
        return None if self._leaf is None else self._leaf()

    def _take(self, node: Node) -> None:
        """Makes `node` represent the content of the memory."""
        node.value, node.handle = self._storage, weakref.ref(self)
        if not node.inputs:
            p.become_leaf(node)
        self._leaf, self._pending, self._pending_since = weakref.ref(node), None, NO_HISTORY
        _in_graphs[id(self)] = weakref.ref(self, functools.partial(_in_graphs.pop, id(self)))

    @property
    def _since(self) -> int:  # type: ignore[override]
        return self._pending_since

    @property
    def shape(self) -> Shape:
        return self._storage.shape

    @property
    def dtype(self) -> DType:
        return self._storage.dtype

    @property
    def storage(self) -> Storage:
        """The memory of the current value, after pending assignments; its address never changes."""
        if self._pending is not None:
            with targets.lock:
                self._computed()
        return self._storage

    def assign(self, value: Any) -> None:
        """Sets the state to `value`, of the state's shape and dtype; a Python number fills the state."""
        tensor = self._fitting(value)
        if tensor is self:
            return
        node = p.alias(tensor.node)
        recorder = tracing.active()
        if recorder is not None:
            recorder.on_assign(self, node)
        else:
            if lines.noting and (watch := watcher.get()) is not None:
                watch.on_assign(self)
            with targets.lock:
                self._leave()
                node.handle = weakref.ref(self)
                self._pending, self._pending_since = node, tensor._since
                _in_graphs[id(self)] = weakref.ref(self, functools.partial(_in_graphs.pop, id(self)))

    def rebind(self, other: Tensor) -> None:
        """Calls `assign`: in-place assignment."""
        self.assign(other)

    def set_value(self, value: Any) -> None:
        """Writes `value`, an array of the state's shape, into the memory now, converted to the state's dtype."""
        source = stored_copy(value, self.dtype, self.name)
        self._check_shape("set_value", source.shape)
        recorder = tracing.active()
        if recorder is not None:
            recorder.on_read("set_value")
        with targets.lock:
            self._leave()
            self._pending, self._pending_since = None, NO_HISTORY
            prepare_run({self}, {self})
            self._storage.write(source.view())

    def snapshot(self) -> Tensor:
        """The current value as a tensor; does not wait."""
        with targets.lock:
            return Tensor(p.buffer(self.storage.copied(is_read=True)))

    def _leave(self) -> None:
        """Drops the handle of the old value: derivatives with respect to the state no longer refer to that value."""
        node = self._pending or self._leaf_node()
        if node is not None:
            node.handle = None

    def _computed(self) -> None:
        """Writes the pending value into the memory; the caller holds `targets.lock`."""
        node = self._pending
        if node is None:
            return
        if node.value is None:
            compute([node])
        value = node.value
        assert value is not None
        self._detach()
        self._storage.write(value.view())
        self._take(node)

    def _detach(self) -> None:
        """Gives a graph that reads the memory a copy of it."""
        node, self._leaf = self._leaf_node(), None
        if node is not None:
            node.value = self._storage.copied()
            if not node.inputs:
                p.become_leaf(node)
            node.handle = None

    def _read(self, operation: str) -> Storage:
        recorder = tracing.active()
        if recorder is not None:
            recorder.on_read(operation)
        return self.storage

    def numpy(self) -> np.ndarray:
        with targets.lock:  # a step in another thread may be writing
            return super().numpy()

    def read_into(self, target: memoryview) -> None:
        with targets.lock:
            super().read_into(target)

    def _scalar(self, operation: str) -> Any:
        with targets.lock:
            return super()._scalar(operation)

    def __copy__(self) -> State:
        return self._copied(vars)

    def __deepcopy__(self, memo: dict[int, Any]) -> State:
        return self._copied(lambda state: copy.deepcopy(vars(state), memo))

    def _copied(self, attributes: Any) -> State:
        """A state with the same class, name, value and other attributes."""
        other = type(self).__new__(type(self))
        State.__init__(other, self, self.name)
        if hasattr(self, "__dict__"):
            vars(other).update(attributes(self))
        return other

    def _fitting(self, value: Any) -> Tensor:
        if isinstance(value, NUMBERS):
            check_scalar("assign", value, self.dtype)
            return Tensor(p.full(self.shape, value, self.dtype))
        tensor = as_tensor(value)
        self._check_shape("assign", tensor.shape)
        if tensor.dtype is not self.dtype:
            raise refusal(
                "assign",
                f"the state {self.name!r} has another dtype",
                found=repr(tensor.dtype),
                expected=repr(self.dtype),
                hint="Convert the value with `.astype(state.dtype)`.",
            )
        return tensor

    def _check_shape(self, operation: str, shape: Shape) -> None:
        if shape != self.shape:
            raise refusal(operation, f"the state {self.name!r} has another shape", found=shape, expected=self.shape)

    def __repr__(self) -> str:
        name = f"{type(self).__name__}({self.name!r}, " if self.name else f"{type(self).__name__}("
        return f"{name}shape={self.shape}, dtype={self.dtype})"


_in_graphs: dict[int, weakref.ref[State]] = {}
"""States whose current or assigned value a graph may read; few while traced steps run."""


def prepare_run(states: Set[State], updated: Set[State]) -> None:
    """Prepares a run of a program that reads `states` and updates `updated`; the caller holds `targets.lock`.

    Writes pending assignments, and gives graphs that need a value in the memory of `updated` a copy, so that the
    program may write there.
    """
    if not _in_graphs:
        return
    left = []
    for number, reference in list(_in_graphs.items()):
        state = reference()
        if state is not None and state in states and state._pending is not None:
            state._computed()
        if state is None or (state._pending is None and state._leaf_node() is None):
            _in_graphs.pop(number, None)
        elif state in updated:
            state._leave()
            left.append(state)
    if left:
        history.release_all()  # values computed from these may not need them any more
        for state in left:
            state._detach()
