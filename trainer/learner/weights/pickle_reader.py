"""Reads pickles without executing them: interprets only the opcodes of containers and tensors.

Nothing outside the caller's table `allowed` is looked up, imported or called. A pickle can therefore only create plain
containers, and the results of the table's functions on checked arguments. Each opcode creates at most one object, and
their number is limited, so memory is limited as well.

Opcodes: https://docs.python.org/3/library/pickletools.html
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from trainer import TrainerError

MOST_OPCODES = 5_000_000

Builder = Callable[..., Any]
"""Creates a value from the arguments of a call; raises ValueError for invalid arguments."""

Globals = Mapping[str, Any]
"""The names that a pickle may use, as "module.name": a `Builder`, or a value that is only referenced."""


@dataclass
class Machine:
    """The state of the interpreter: a stack, the stacks set aside by marks, and the memo."""

    allowed: Globals
    persistent: Callable[[Any], Any]
    where: str
    stack: list[Any] = field(default_factory=list)
    below: list[list[Any]] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def refuse(self, what: str, found: object) -> NoReturn:
        raise TrainerError(
            f"not loaded: {what}", where=self.where, found=found,
            hint="Only tensors in dictionaries and lists are supported: torch.save(model.state_dict(), path).",
        )  # fmt: skip

    def since_mark(self) -> list[Any]:
        """The values pushed since the last mark; restores the stack below it."""
        items, self.stack = self.stack, self.below.pop()
        return items

    def look_up(self, name: str) -> None:
        if name not in self.allowed:
            self.refuse("the file needs more than tensors", name)
        self.stack.append(self.allowed[name])

    def call(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not callable(function) or not isinstance(arguments, tuple):
            self.refuse("the file calls a value that is not a function", type(function).__name__)
        self.stack.append(function(*arguments))

    def set_items(self, target: Any, items: list[Any]) -> None:
        if not isinstance(target, dict) or len(items) % 2:
            raise ValueError("items outside of a dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | int | float | None):
                raise ValueError(f"a key of type {type(key).__name__}")
            target[key] = value

    def extend(self, target: Any, items: list[Any]) -> None:
        if not isinstance(target, list):
            raise ValueError("an item outside of a list")
        target.extend(items)

    def build(self) -> None:
        """Ignores the attributes of an ordered dictionary (versions of a state dictionary); rejects others."""
        attributes, target = self.stack.pop(), self.stack[-1]
        if not isinstance(target, dict) or not isinstance(attributes, dict):
            self.refuse("the file sets attributes", f"of {type(target).__name__}")

    def name_from_stack(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise ValueError("a name that is not text")
        self.look_up(f"{module}.{name}")

    def mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []


def _push(machine: Machine, argument: Any) -> None:
    machine.stack.append(argument)


def _constant(make: Callable[[], Any]) -> Callable[[Machine, Any], None]:
    return lambda machine, _: machine.stack.append(make())


def _tuple_of(count: int) -> Callable[[Machine, Any], None]:
    def make(machine: Machine, _: Any) -> None:
        if len(machine.stack) < count:
            raise IndexError("stack underflow")
        machine.stack[-count:] = [tuple(machine.stack[-count:])]

    return make


def _tuple_since_mark(machine: Machine, _: Any) -> None:
    items = tuple(machine.since_mark())  # before reading the stack, which this replaces
    machine.stack.append(items)


def _remember(machine: Machine, place: int) -> None:
    machine.memo[place] = machine.stack[-1]


def _recall(machine: Machine, place: int) -> None:
    machine.stack.append(machine.memo[place])


def _set_one(machine: Machine, _: Any) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    machine.set_items(machine.stack[-1], [key, value])


def _set_many(machine: Machine, _: Any) -> None:
    items = machine.since_mark()
    machine.set_items(machine.stack[-1], items)


def _append_one(machine: Machine, _: Any) -> None:
    item = machine.stack.pop()
    machine.extend(machine.stack[-1], [item])


def _append_many(machine: Machine, _: Any) -> None:
    items = machine.since_mark()
    machine.extend(machine.stack[-1], items)


OPCODES: dict[str, Callable[[Machine, Any], None]] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "MARK": lambda machine, _: machine.mark(),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"), _push),
    **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), _push),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES"), _push),
    "NONE": _constant(lambda: None),
    "NEWTRUE": _constant(lambda: True),
    "NEWFALSE": _constant(lambda: False),
    "EMPTY_DICT": _constant(dict),
    "EMPTY_LIST": _constant(list),
    "EMPTY_TUPLE": _constant(tuple),
    "TUPLE": _tuple_since_mark,
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _remember),
    "MEMOIZE": lambda machine, _: _remember(machine, len(machine.memo)),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _recall),
    "SETITEM": _set_one,
    "SETITEMS": _set_many,
    "APPEND": _append_one,
    "APPENDS": _append_many,
    "GLOBAL": lambda machine, argument: machine.look_up(argument.replace(" ", ".")),
    "STACK_GLOBAL": lambda machine, _: machine.name_from_stack(),
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
    "BINPERSID": lambda machine, _: machine.stack.append(machine.persistent(machine.stack.pop())),
}


def unpickled(
    data: bytes, allowed: Globals, persistent: Callable[[Any], Any], where: str, start: int = 0
) -> tuple[Any, int]:
    """The value of the pickle that begins at `start` of `data`, and its end.

    `persistent` converts a persistent identifier (a reference to a tensor's memory) to a value; it raises ValueError
    for an invalid one.

    Raises:
        TrainerError: the pickle is damaged, or uses a name that is not in `allowed`.
    """
    machine = Machine(allowed, persistent, where)
    file = io.BytesIO(data)
    file.seek(start)
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
            if opcode.name == "STOP":
                (value,) = machine.stack
                return value, file.tell()
            run = OPCODES.get(opcode.name)
            if run is None:
                machine.refuse("the file needs more than tensors", f"pickle's {opcode.name}")
            if count == MOST_OPCODES:
                machine.refuse("the pickle is too long", f"more than {MOST_OPCODES:,} opcodes")
            run(machine, argument)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise TrainerError("a damaged pickle", where=where, found=str(error)[:200] or type(error).__name__) from error
    raise TrainerError("a damaged pickle", where=where, found="it has no end")
