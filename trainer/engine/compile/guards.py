"""Guards: Python values that a traced step was built from, checked before each replay so that none goes stale.

Watched are the numbers, strings and flags that the function can see without being handed them: closure cells, globals
that its code names, and attributes that its code names on the objects in reach (the task itself, its modules and
optimisers).
"""

from __future__ import annotations

import opcode
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from trainer import TrainerError
from trainer.engine.tensor import Tensor

_PLAIN = (bool, int, float, str, type(None))
_LARGEST = 20000
_STORE_ATTR, _EXTENDED_ARG = opcode.opmap["STORE_ATTR"], opcode.opmap["EXTENDED_ARG"]


@dataclass(frozen=True, slots=True)
class _Watch:
    holder: dict[str, Any]
    key: str
    value: Any
    where: str


class Guards:
    """A snapshot of what `function` sees; `check` raises where something has changed since."""

    def __init__(self, function: Callable[..., Any]) -> None:
        target = getattr(function, "__func__", function)
        owner = getattr(function, "__self__", None)
        self._cells: list[tuple[types.CellType, Any, str]] = []
        self._watches: list[_Watch] = []
        self._stored: set[str] = set()
        code = getattr(target, "__code__", None)
        if code is None or not isinstance(target, types.FunctionType):
            return
        self._place = f"{code.co_filename}:{code.co_firstlineno}"
        names = _names(code)
        roots: list[tuple[Any, str]] = [] if owner is None else [(owner, "self")]
        for name, cell in zip(code.co_freevars, target.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:
                continue  # a cell that is filled later holds nothing to watch yet
            if isinstance(value, _PLAIN):
                self._cells.append((cell, value, name))
            else:
                roots.append((value, name))
        for name in sorted(names):
            value = target.__globals__.get(name)
            if isinstance(value, _PLAIN) and name in target.__globals__:
                self._watches.append(_Watch(target.__globals__, name, value, name))
        objects = list(_objects(roots))
        self._stored = _follow(target, names, {kind for _, _, kind in objects})
        for holder, where, _ in objects:
            for key in names:
                if key in holder and isinstance(holder[key], _PLAIN):
                    self._watches.append(_Watch(holder, key, holder[key], f"{where}.{key}"))

    def settle(self) -> None:
        """To be called once the step has been traced: what the step itself assigns can't be watched.

        Raises:
            TrainerError: it counts in a Python number, which would stand still from now on.
        """
        for watch in self._watches:
            if watch.key in self._stored and isinstance(watch.value, int | float) and not isinstance(watch.value, bool):
                now = watch.holder.get(watch.key)
                if now != watch.value:
                    raise TrainerError(
                        f"{watch.where} is assigned inside a traced step, which runs only once",
                        where=self._place,
                        found=f"{watch.value!r} before and {now!r} after tracing",
                        hint="Make it a State (engine.State) and assign to it.",
                    )
        self._watches = [watch for watch in self._watches if watch.key not in self._stored]

    def check(self) -> None:
        """Raise a `TrainerError` that names the first value which is not what it was when the step was traced."""
        for watch in self._watches:
            now = watch.holder.get(watch.key)
            if now is not watch.value and (now != watch.value or type(now) is not type(watch.value)):
                raise self._changed(watch.where, watch.value, now)
        for cell, value, name in self._cells:
            now = cell.cell_contents
            if now is not value and (now != value or type(now) is not type(value)):
                raise self._changed(name, value, now)

    def _changed(self, name: str, before: Any, now: Any) -> TrainerError:
        return TrainerError(
            f"{name} changed after the step that uses it was traced",
            where=self._place,
            found=repr(now),
            expected=f"{before!r}, as it was when the step was traced",
            hint="Make it a State (engine.State) and assign to it, or pass it to the step as an array.",
        )


def _names(code: types.CodeType) -> set[str]:
    """Global and attribute names in a function's code and in the functions nested in it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def _follow(function: types.FunctionType, names: set[str], kinds: set[type]) -> set[str]:
    """Add to `names` what `function`, the functions that it names and the methods of `kinds` use; the attributes they
    assign.

    The engine's own functions are left out: they keep nothing of a user's.
    """
    followed: set[types.FunctionType] = set()
    stored: set[str] = set()
    waiting = [function]
    while waiting:
        current = waiting.pop()
        if current in followed:
            continue
        followed.add(current)
        fresh = _names(current.__code__)
        names |= fresh
        stored |= _stored_names(current.__code__)
        for name in fresh:
            other = current.__globals__.get(name)
            if isinstance(other, types.FunctionType) and not other.__module__.startswith("trainer.engine."):
                waiting.append(other)
        for kind in kinds:
            methods = (getattr(kind, name, None) for name in [*fresh, "forward", "__call__"])
            waiting.extend(method for method in methods if isinstance(method, types.FunctionType))
    return stored


def _stored_names(code: types.CodeType) -> set[str]:
    """Names of the attributes that a function's code assigns."""
    stored: set[str] = set()
    extended = 0
    for operation, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument |= extended << 8
        if operation == _STORE_ATTR:
            stored.add(code.co_names[argument])
        extended = argument if operation == _EXTENDED_ARG else 0
    return stored


def _objects(roots: list[tuple[Any, str]]) -> Iterator[tuple[dict[str, Any], str, type]]:
    """Attribute dictionaries and types of the objects in reach of `roots` through attributes, lists, tuples and
    dictionaries.
    """
    seen: set[int] = set()
    stack = list(reversed(roots))
    while stack and len(seen) < _LARGEST:
        value, where = stack.pop()
        if id(value) in seen or isinstance(value, (*_PLAIN, types.ModuleType, type, types.FunctionType, Tensor)):
            continue
        seen.add(id(value))
        if isinstance(value, list | tuple):
            stack.extend((item, f"{where}[{index}]") for index, item in enumerate(value))
        elif isinstance(value, dict):
            stack.extend((item, f"{where}[{key!r}]") for key, item in value.items())
        elif type(value).__module__.split(".")[0] != "numpy" and isinstance(getattr(value, "__dict__", None), dict):
            holder = value.__dict__
            yield holder, where, type(value)
            stack.extend((item, f"{where}.{key}") for key, item in holder.items())
