"""The trace in progress, if any: tensors and states report reads and assignments to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Node


class ActiveTrace(Protocol):
    """Receives events while a step is traced. A `state` is an `engine.State`, which this layer can't import."""

    effect: Node | None
    """The token of the last effect."""

    began: int
    """The sequence of the first node of the trace: older ones come from outside."""

    def on_host_call(self, function: Callable[..., Any], token: Node | None) -> None:
        """Records a call of `function` on arrays; `token`: an effect, which runs even if its results are unused."""

    def on_read(self, operation: str) -> None:
        """Raises, since a tensor's value is requested during tracing (see `refuse_read`)."""

    def on_state_read(self, state: Any) -> Node:
        """Returns the node of the value of `state` at this point of the step."""

    def on_assign(self, state: Any, node: Node) -> None:
        """Records that `state` gets the value `node`, of its shape and dtype."""


_recorder: ContextVar[ActiveTrace | None] = ContextVar("trace_recorder", default=None)

active = _recorder.get
"""The recorder of the trace in progress, or None."""


@contextmanager
def recording(recorder: ActiveTrace | None) -> Iterator[None]:
    """Traces the code inside the `with` block with `recorder`; with None, nothing is traced there."""
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)


def refuse_read(operation: str) -> None:
    """Raises the error of reading a value inside a traced step, as `ActiveTrace.on_read` does."""
    raise refusal(
        operation,
        "value read inside a traced step",
        expected="graph code: a traced step is recorded once, before any value exists",
        hint="Return the tensor from the step and read it outside, or choose with engine.where.",
    )
