"""The trace in progress, if any: tensors and states report reads and assignments to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Node


class ActiveTrace(Protocol):
    """Receives what happens to values while a step is traced. A `state` is an `engine.State`, which is above this."""

    effect: Node | None
    """The token of the last effect."""

    began: int
    """The sequence of the first node of the trace: older ones come from outside."""

    def on_host_call(self, function: Callable[..., Any], token: Node | None) -> None:
        """`function` is called on arrays; `token` stands for an effect, which runs even if its results are unused."""

    def on_read(self, operation: str) -> None:
        """A tensor's value is requested during tracing: raises (see `refuse_read`)."""

    def on_state_read(self, state: Any) -> Node:
        """`state` is used; gives the node that stands for its value at this point of the step."""

    def on_assign(self, state: Any, node: Node) -> None:
        """`state` gets the value `node`, of its shape and dtype."""


_recorder: ContextVar[ActiveTrace | None] = ContextVar("trace_recorder", default=None)

active = _recorder.get
"""The recorder of the trace in progress, or None."""


@contextmanager
def recording(recorder: ActiveTrace | None) -> Iterator[None]:
    """Trace what runs inside with `recorder`; with None, nothing is being traced there."""
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)


def refuse_read(operation: str) -> None:
    """Raise the error of reading a value inside a traced step; what `ActiveTrace.on_read` does."""
    raise refusal(
        operation,
        "value read inside a traced step",
        expected="graph code: a traced step is recorded once, before any value exists",
        hint="Return the tensor from the step and read it outside, or choose with engine.where.",
    )
