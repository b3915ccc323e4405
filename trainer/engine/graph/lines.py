"""The line of the user's code that created each node.

Lines are noted only while a device computes asynchronously: its errors are raised at a later line. Elsewhere the
traceback has it, and finding it would add a third to the cost of a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Protocol, TypeVar

from trainer.engine.graph.errors import user_line


class _Noted(Protocol):
    line: str | None


Made = TypeVar("Made", bound=_Noted)

noting = 0
"""How many devices need lines now."""

_inherited: ContextVar[str | None] = ContextVar("inherited_line", default=None)


def current() -> str | None:
    """The line for a new node: that of the node that it replaces, or the user's."""
    return _inherited.get() or user_line()


def inherited(nodes: Iterable[Made]) -> Iterator[Made]:
    """Each of `nodes` in turn; nodes that are made meanwhile have its line."""
    if not noting:
        yield from nodes
        return
    token = _inherited.set(None)
    try:
        for node in nodes:
            _inherited.set(node.line)
            yield node
    finally:
        _inherited.reset(token)
