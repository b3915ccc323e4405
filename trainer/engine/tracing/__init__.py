"""What is being traced now, if anything: the tensor layer tells the recorder of reads and assignments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Node

if TYPE_CHECKING:
    from trainer.engine.state import State


class Recorder(Protocol):
    """Hears what happens to values while a step is traced."""

    effect: Node | None
    """The token of the last effect."""

    def on_host_call(self, function: Callable[..., Any], token: Node | None) -> None:
        """`function` is called on arrays; `token` stands for an effect, which runs whatever becomes of its results."""

    def on_read(self, operation: str) -> None:
        """A tensor's value is asked for; there is none yet: raises (see `refuse_read`)."""

    def on_state_read(self, state: State) -> Node:
        """`state` is used; gives the node that stands for its value at this point of the step."""

    def on_assign(self, state: State, node: Node) -> None:
        """`state` gets the value `node`, of its shape and dtype."""


_recorder: ContextVar[Recorder | None] = ContextVar("trace_recorder", default=None)

active = _recorder.get
"""The recorder of the trace in progress, or None."""


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Trace what runs inside with `recorder`."""
    token = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(token)


def refuse_read(operation: str) -> None:
    """Raise the error of reading a value inside a traced step; what `Recorder.on_read` does."""
    raise refusal(
        operation,
        "value read inside a traced step",
        expected="graph code: a traced step is recorded once, before any value exists",
        hint="Return the tensor from the step and read it outside, or choose with engine.where.",
    )
