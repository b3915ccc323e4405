"""What a function can see without being handed it: closure cells, globals that its code reads, and attributes that its
code names on the objects in reach, through the functions and methods that it names.
"""

from __future__ import annotations

import functools
import opcode
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.engine.tensor import Tensor

PLAIN = (bool, int, float, str, type(None))
ARRAYS = (np.ndarray, Tensor)
ABSENT = object()

_CLOSED = (*PLAIN, *ARRAYS, types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType)
_MOST_OBJECTS, _LONGEST = 20000, 4096
_SETTINGS = frozenset({"types", "argparse"})
"""Modules of the standard library whose objects hold a user's settings (SimpleNamespace, Namespace)."""

_LOAD_GLOBAL, _STORE_ATTR = opcode.opmap["LOAD_GLOBAL"], opcode.opmap["STORE_ATTR"]
_EXTENDED_ARG = opcode.opmap["EXTENDED_ARG"]


@dataclass(frozen=True, slots=True)
class Watch:
    """A value, where the user finds it, and how to look at it again.

    `attribute` is its name where it is one, of the object with the dictionary `holder`, or of its class `kind`.
    """

    where: str
    value: Any
    read: Callable[[], Any]
    attribute: str | None = None
    holder: dict[str, Any] | None = None
    kind: type | None = None


def function_of(callable_: Any) -> tuple[types.FunctionType | None, Any]:
    """The Python function that a callable runs, and the object that it is bound to; (None, None) if there is none."""
    while isinstance(callable_, functools.partial) or hasattr(callable_, "__wrapped__"):
        callable_ = callable_.func if isinstance(callable_, functools.partial) else callable_.__wrapped__
    if not isinstance(callable_, types.FunctionType | types.MethodType) and not isinstance(callable_, type):
        callable_ = getattr(callable_, "__call__", None)  # noqa: B004 - the bound method is wanted
    target, owner = getattr(callable_, "__func__", callable_), getattr(callable_, "__self__", None)
    return (target, owner) if isinstance(target, types.FunctionType) else (None, None)


class Reach:
    """The functions and objects that `target`, bound to `owner`, may come to.

    `stored` are the attributes that some of these functions assign. Functions of the engine are left out where a global
    names them: they keep nothing of a user's.
    """

    def __init__(self, target: types.FunctionType, owner: Any) -> None:
        self.stored: set[str] = set()
        self._attributes: set[str] = set()
        self._watches: list[Watch] = []
        self._roots: list[tuple[Any, str]] = [] if owner is None else [(owner, "self")]
        self._followed: set[types.FunctionType] = set()
        self._follow([target])
        kinds = {type(value) for value, _ in _objects(self._roots)}
        called = self._attributes | {"forward", "__call__"}
        while called:
            known = set(self._attributes)
            methods = [getattr(kind, name, None) for kind in kinds for name in called]
            self._follow(method for method in methods if isinstance(method, types.FunctionType))
            called = self._attributes - known

    def watches(self) -> list[Watch]:
        """Everything in reach that is a plain value, an array or a tensor."""
        found = list(self._watches)
        for value, where in _objects(self._roots):
            holder = value.__dict__
            for key in self._attributes & holder.keys():
                if isinstance(holder[key], PLAIN + ARRAYS):
                    read = functools.partial(holder.get, key, ABSENT)
                    found.append(Watch(f"{where}.{key}", holder[key], read, key, holder))
            for key, default in _class_attributes(type(value), self._attributes - holder.keys()):
                read = functools.partial(_attribute, holder, key, type(value))
                found.append(Watch(f"{where}.{key}", default, read, key, holder, type(value)))
        return found

    def _follow(self, functions: Iterable[types.FunctionType]) -> None:
        waiting = list(functions)
        while waiting:
            function = waiting.pop()
            if function in self._followed:
                continue
            self._followed.add(function)
            code, space = function.__code__, function.__globals__
            attributes, globals_read, stored = _names(code)
            self._attributes |= attributes
            self.stored |= stored
            for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
                value = _cell_value(cell)
                waiting += self._see(value, name, functools.partial(_cell_value, cell))
            for name in globals_read:
                value = space.get(name, ABSENT)
                if isinstance(value, types.FunctionType) or not _is_ours(function):
                    waiting += self._see(value, name, functools.partial(space.get, name, ABSENT))

    def _see(self, value: Any, name: str, read: Callable[[], Any]) -> list[types.FunctionType]:
        """Watch what `name` stands for, or remember it as an object in reach; the function to follow, if it is one."""
        if isinstance(value, PLAIN + ARRAYS):
            self._watches.append(Watch(name, value, read))
        elif isinstance(value, types.MethodType | functools.partial | types.FunctionType) or hasattr(
            value, "__wrapped__"
        ):
            function, owner = function_of(value)
            if owner is not None:
                self._roots.append((owner, name))
            if function is not None and not str(function.__module__).startswith("trainer.engine."):
                return [function]
        elif value is not ABSENT:
            self._roots.append((value, name))
        return []


def _is_ours(function: types.FunctionType) -> bool:
    """Whether a function is the package's; recipes are written like a user's code, and copied to become one."""
    return str(function.__module__).startswith("trainer.") and not function.__module__.startswith("trainer.recipes.")


def _cell_value(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT  # filled later


def _attribute(holder: dict[str, Any], key: str, kind: type) -> Any:
    """An attribute of the object with the dictionary `holder`, its own or of its class."""
    for place in (holder, *(vars(base) for base in kind.__mro__)):
        if key in place:
            return place[key]
    return ABSENT


def _class_attributes(kind: type, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Plain attributes that a class gives to its objects; those of the package's own classes are constants."""
    if kind.__module__.startswith("trainer.") and not kind.__module__.startswith("trainer.recipes."):
        return
    for name in names:
        value = ABSENT if name.startswith("__") else _attribute({}, name, kind)
        if isinstance(value, PLAIN):
            yield name, value


def _names(code: types.CodeType) -> tuple[set[str], set[str], set[str]]:
    """Names in a function's code and in the functions nested in it: all, globals that are read, attributes assigned."""
    attributes, read, stored = set(code.co_names), set(), set()
    extended = 0
    for operation, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument |= extended << 8
        if operation == _LOAD_GLOBAL:
            read.add(code.co_names[argument >> 1])
        elif operation == _STORE_ATTR:
            stored.add(code.co_names[argument])
        extended = argument if operation == _EXTENDED_ARG else 0
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for names, more in zip((attributes, read, stored), _names(constant), strict=True):
                names |= more
    return attributes, read, stored


def _objects(roots: Iterable[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    """Objects with attributes in reach of `roots` through attributes, lists, tuples and dictionaries, and their paths.

    Objects of the standard library (loggers, locks) are none of the step's.
    """
    seen: set[int] = set()
    stack = list(roots)[::-1]
    while stack and len(seen) < _MOST_OBJECTS:
        value, where = stack.pop()
        if id(value) in seen or isinstance(value, _CLOSED):
            continue
        seen.add(id(value))
        if isinstance(value, list | tuple):
            stack.extend((item, f"{where}[{index}]") for index, item in enumerate(value[:_LONGEST]))
        elif isinstance(value, dict):
            if len(value) <= _LONGEST:
                stack.extend((item, f"{where}[{key!r}]") for key, item in value.items())
        elif isinstance(getattr(value, "__dict__", None), dict) and _is_a_users(type(value)):
            yield value, where
            stack.extend((item, f"{where}.{key}") for key, item in value.__dict__.items())


def _is_a_users(kind: type) -> bool:
    package = kind.__module__.split(".")[0]
    return package != "numpy" and (package in _SETTINGS or package not in sys.stdlib_module_names)
