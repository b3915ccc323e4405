"""Guards: the objects and values that a traced step depends on, checked before each replay so that no program is stale.

If an object (a layer, a parameter, a function, a class) was replaced, the step is traced again. If a Python number,
string, flag or array has changed, the call is refused. `tracing.dependencies` decides what is guarded.
"""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine.tracing.constants import ARRAYS, PLAIN, is_constant, is_same_value
from trainer.engine.tracing.containers import DECLARED, ContainerKey
from trainer.engine.tracing.dependencies import MOST_OBJECTS, Dependencies, Scope, walk
from trainer.engine.tracing.identity_checks import ABSENT


class Guards:
    """A snapshot of the values on which `function` and the objects among its arguments (by name) depend.

    `ignored` collects names that the step itself assigns whenever it is traced; the guards of all signatures share it.
    """

    def __init__(self, function: Callable[..., Any], arguments: Iterable[tuple[str, Any]], ignored: set[str]) -> None:
        owner = getattr(function, "__self__", None) if isinstance(function, types.MethodType) else function
        target = getattr(function, "__func__", function)
        self._roots = [("self", owner)] if owner is not target else []
        self._roots += [("self" if not isinstance(target, types.FunctionType) else "", target), *arguments]
        self._place = _place_of(target)
        self._ignored, self._scope = ignored, Scope()
        self._dependencies = self._walk()
        if self._dependencies.is_cut_off:
            warnings.warn(
                f"a traced step depends on more than {MOST_OBJECTS} objects: the others are not guarded",
                RuntimeWarning,
                stacklevel=4,
            )

    def settle(self, hosts: frozenset[types.CodeType] = frozenset()) -> None:
        """Updates the guards after the step was traced: values that the step itself assigns can't be guarded, and
        values that only the functions of its host calls (`hosts`) read need no guard.

        Raises:
            TrainerError: the step counts in a Python number, which would not change during replays.
        """
        after, known = self._walk(), len(self._ignored)
        for where, value, now in self._differences(after, own=True):
            if isinstance(now, PLAIN) and (_is_number(value) or (where.isidentifier() and isinstance(value, PLAIN))):
                raise TrainerError(
                    f"{where} is assigned inside a traced step, which runs only once",
                    where=self._place,
                    found=f"{_described(value)} before and {_described(now)} after tracing",
                    hint="Make it a State (engine.State) and assign to it.",
                )
            if not (value is ABSENT or (value is None and not is_constant(now))):
                self._ignored.add(
                    where
                )  # an object created by one trace only is guarded, one created by each trace is not
        if hosts:
            self._scope = Scope(hosts=hosts)
        self._dependencies = after if len(self._ignored) == known and not hosts else self._walk()

    def check(self) -> str | None:
        """Returns the name of an object that was replaced after the step was traced, or None.

        Raises:
            TrainerError: no object was replaced, but a number, a string, a flag or an array has changed.
        """
        if self._dependencies.checks.is_same():
            return None
        now = self._walk()
        changes = list(self._differences(now))
        for where, value, new in changes:
            if not is_constant(value) or not (new is ABSENT or is_constant(new)):
                return where
        for where, value, new in changes:
            raise TrainerError(
                f"{where} changed after the step that uses it was traced",
                where=self._place,
                found="another one" if isinstance(value, ARRAYS) else _described(new),
                expected=f"{_described(value)}, as it was when the step was traced",
                hint="Make it a State (engine.State) and assign to it, or pass it to the step as an array.",
            )
        self._dependencies = now  # other objects with the same contents
        return None

    def _walk(self) -> Dependencies:
        return walk(self._roots, self._scope, frozenset(self._ignored))

    def _differences(self, now: Dependencies, *, own: bool = False) -> Iterator[tuple[str, Any, Any]]:
        """Yields (name, old value, new value) of each difference; `own` includes values that the step may assign."""
        before = self._dependencies
        for key in before.values | now.values:
            value, new = before.values.get(key, ABSENT), now.values.get(key, ABSENT)
            is_own = key in before.skipped or key in now.skipped
            if not _is_same(value, new) and (own or not is_own) and not self._is_ignored(key[0]):
                yield key[0], value, new

    def _is_ignored(self, where: str) -> bool:
        return any(where == each or where.startswith((f"{each}.", f"{each}[")) for each in self._ignored)


def _place_of(target: Any) -> str | None:
    """The place where the code of a callable begins, as `file.py:12`; for a wrapper, that of the innermost callable."""
    while isinstance(target, functools.partial) or hasattr(target, "__wrapped__"):
        target = target.func if isinstance(target, functools.partial) else target.__wrapped__
    target = getattr(target, "__func__", target)
    code = getattr(target if hasattr(target, "__code__") else type(target).__call__, "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def _is_same(value: Any, new: Any) -> bool:
    if value is new or value is DECLARED:
        return True
    if isinstance(value, ContainerKey):
        return bool(value == new)
    return isinstance(value, PLAIN) and is_same_value(value, new)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | complex | np.number) and not isinstance(value, bool)


def _described(value: Any) -> str:
    """A value for a message; tensors may have no value to show."""
    if value is ABSENT:
        return "nothing"
    return repr(value) if isinstance(value, PLAIN) else f"the {type(value).__name__}"
