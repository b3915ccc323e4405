"""State: the one kind of value that changes in place."""

from __future__ import annotations

import sys
from typing import Any

from trainer.engine import devices, tracing
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Node, Shape
from trainer.engine.graph.storage import Storage
from trainer.engine.promotion import check_scalar
from trainer.engine.tensor import NO_HISTORY, NUMBERS, Tensor, as_tensor, stored_copy


class State(Tensor):
    """A value that `assign` changes: a parameter, a moment, a counter, a statistic.

    Its memory stays at one place for its whole life, so compiled programs update it in place. Handles that were made
    from an earlier value keep that value.

    Args:
        value: an array, a tensor or nested lists; copied.
        name: what errors and checkpoints call it.
        dtype: converts `value` to it; None keeps the value's dtype.
    """

    is_state = True

    __slots__ = ("_leaf", "_pending", "_pending_since", "_storage", "name")

    def __init__(self, value: Any, name: str = "", dtype: DType | None = None) -> None:
        self.name = name
        self._pending: Node | None = None
        self._pending_since = NO_HISTORY
        self._storage = stored_copy(value, dtype, name, "State")
        self._storage.is_state = True
        self._leaf = p.buffer(self._storage)

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node of the current value; while a step is traced, what the recorder says it is."""
        recorder = tracing.active()
        if recorder is not None:
            return recorder.on_state_read(self)
        return self._leaf if self._pending is None else self._pending

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
            self._settle()
        return self._storage

    def assign(self, value: Any) -> None:
        """Make `value`, of the state's shape and dtype, the state's next value. A Python number fills it."""
        tensor = self._fitting(value)
        recorder = tracing.active()
        if recorder is not None:
            recorder.on_assign(self, tensor.node)
        else:
            self._pending, self._pending_since = tensor.node, tensor._since
            if self._pending is self._leaf:
                self._pending = None

    def set_value(self, value: Any) -> None:
        """Write `value`, an array of the state's shape, into the memory now, converted to the state's dtype."""
        source = stored_copy(value, self.dtype, self.name)
        self._check_shape("set_value", source.shape)
        recorder = tracing.active()
        if recorder is not None:
            recorder.on_read("set_value")
        self._pending, self._pending_since = None, NO_HISTORY
        self.prepare_update()
        self._storage.view()[...] = source.view()

    def prepare_update(self) -> None:
        """Make the memory free to be written: pending assignments are done, and live handles to its value get a copy.

        A program calls this for each state that it updates, before each run.
        """
        if self._pending is not None:
            self._settle()
        if sys.getrefcount(self._leaf) > 2:  # ours and the argument's
            old = self._storage
            self._storage = new = Storage(old.shape, old.dtype, is_state=True, name=old.name)
            new.layout, new.memory, new.settled = old.layout, old.memory, old.settled
            assert old.memory is not None
            old.memory, old.is_state = old.memory.copy(), False
            self._leaf = p.buffer(new)

    def _settle(self) -> None:
        """Evaluate the pending assignment into the memory."""
        node = self._pending
        assert node is not None
        result = node.attributes[0] if node.name == "buffer" else devices.current().evaluate([node])[0]
        self._rebase(result)

    def _rebase(self, storage: Storage) -> None:
        self._pending, self._pending_since = None, NO_HISTORY
        self.prepare_update()
        self._storage.view()[...] = storage.view()

    def _read(self, operation: str) -> Storage:
        recorder = tracing.active()
        if recorder is not None:
            recorder.on_read(operation)
        return self.storage

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
