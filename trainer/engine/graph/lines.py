"""The line of the user's code that created each node.

Lines are noted only while `noting` is above 0, as on asynchronous devices: they raise errors at a later line. Otherwise
the traceback has the line, and finding it would add a third to the cost of a node.
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
"""Number of users that need lines now: asynchronous devices, checks, traces for shards or export."""

_inherited: ContextVar[str | None] = ContextVar("inherited_line", default=None)


def current() -> str | None:
    """Returns the line for a new node: that of the node that it replaces, or the user's."""
    return _inherited.get() or user_line()


def inherited(nodes: Iterable[Made]) -> Iterator[Made]:
    """Yields each of `nodes`; nodes that are made before the next one get its line."""
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
