"""The values on which a function depends: closure cells, globals that its code reads, attributes that it names, and so
on.
"""

from __future__ import annotations

import builtins
import functools
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from trainer.engine.tensor import Tensor
from trainer.engine.tracing.constants import ARRAYS, PLAIN, is_constant, is_module
from trainer.engine.tracing.containers import DECLARED, entries, fields_of, is_frozen, is_long, outline_of
from trainer.engine.tracing.identity_checks import ABSENT, IdentityChecks
from trainer.engine.tracing.names import names_of
from trainer.engine.tracing.origin import is_closed, origin
from trainer.engine.tracing.pytree import slots_of

Key = tuple[str, int]
"""Where a value was found, as the user writes it, and its number among the values with that name."""

MOST_OBJECTS = 20000

_CONSTRUCTION = frozenset({"__init__", "__new__", "__post_init__"})
_UNCALLED = frozenset({
    "__repr__", "__str__", "__del__", "__init_subclass__", "__class_getitem__", "__set_name__",
    "__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__annotate__", "__annotate_func__",
})  # fmt: skip
_TREE = frozenset({"_states", "_children", "_computed", "_parent"})
"""Attributes of an `nn.Module` whose entries are guarded individually, or change with those that are."""

_FUNCTIONS = (types.FunctionType, property, staticmethod, classmethod)


@dataclass
class Scope:
    """The names in the functions that a step may run: names in a user's code, names in the package's code, attributes
    that any of these functions assign, and attributes that the package's functions assign.

    Contents of containers that a user's objects hold are guarded only if the user's code names the container.
    """

    users: set[str] = field(default_factory=set)
    packages: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    stored_by_packages: set[str] = field(default_factory=set)
    hosts: frozenset[types.CodeType] = frozenset()
    """Functions of host calls: the values that they read are not guarded."""

    def __len__(self) -> int:
        return len(self.users) + len(self.packages) + len(self.stored) + len(self.stored_by_packages)


class Dependencies:
    """One walk from `roots`, objects by name: the values that were found, and columns to compare them.

    `skipped`: keys of values that the step itself assigns; they are in `values` so that counters are found.
    `is_cut_off`: more values are reachable than are guarded. `scope` grows; a walk in which it grew must be repeated
    (`walk`).
    """

    def __init__(self, roots: Iterable[tuple[str, Any]], scope: Scope, ignored: frozenset[str]) -> None:
        self.values: dict[Key, Any] = {}
        self.skipped: set[Key] = set()
        self.checks = IdentityChecks()
        self._scope, self._ignored = scope, ignored
        self._counts: dict[str, int] = {}
        self._visited: dict[tuple[int, bool], Any] = {}
        self._classes: set[type] = set()
        self._inherited: dict[type, dict[str, Any]] = {}
        self._waiting = [(value, where, True) for where, value in roots][::-1]
        self._unnamed: dict[str, list[Callable[[], None]]] = {}
        """By name, functions that visit attributes that no code named when their objects and classes were visited."""

        while self._waiting and len(self._visited) < MOST_OBJECTS:
            self._visit(*self._waiting.pop())
            if not self._waiting:
                self._visit_named()
        self.is_cut_off = bool(self._waiting)
        self._visited.clear()
        self._unnamed.clear()

    # --- recording ------------------------------------------------------------------------------------------------

    def _note(self, where: str, value: Any, *, is_skipped: bool = False, opens: bool = True) -> bool:
        """Records a value and visits it later; returns False if it is skipped or ignored, and so not guarded.

        `opens`: whether the contents of a container are guarded.
        """
        count = self._counts[where] = self._counts.get(where, -1) + 1
        self.values[where, count] = outline_of(value) if opens else value
        if is_skipped or where in self._ignored:
            self.skipped.add((where, count))
            return False
        self._waiting.append((value, where, opens))
        return True

    def _item(
        self, where: str, holder: dict[str, Any], key: str, *, is_skipped: bool = False, opens: bool = True
    ) -> None:
        value = holder.get(key, ABSENT)
        if self._note(where, value, is_skipped=is_skipped, opens=opens):
            self.checks.items.add(holder, key, value)

    def _attribute(self, where: str, holder: Any, name: str, *, is_skipped: bool = False, opens: bool = True) -> None:
        try:
            value = getattr(holder, name)
        except (AttributeError, ValueError):
            return  # a slot or a cell that is filled later
        if self._note(where, value, is_skipped=is_skipped, opens=opens):
            self.checks.attributes.add(holder, name, value)

    # --- following ------------------------------------------------------------------------------------------

    def _visit_named(self) -> None:
        """Visits attributes that code named only later: one walk, not seven, then finds nearly all of a scope."""
        for name in self._unnamed.keys() & (self._scope.users | self._scope.packages):
            for visit in self._unnamed.pop(name):
                visit()

    def _visit(self, value: Any, where: str, opens: bool) -> None:
        if (
            isinstance(value, (*PLAIN, *ARRAYS))
            or (id(value), True) in self._visited
            or (id(value), opens) in self._visited
        ):
            return
        self._visited[id(value), opens] = value
        if isinstance(value, list | tuple | dict | set | frozenset):
            self._container(value, where, opens)
        elif isinstance(value, types.FunctionType):
            self._function(value, where)
        elif isinstance(value, types.MethodType):
            self._waiting += [(value.__self__, f"{where}.__self__", True), (value.__func__, where, True)]
        elif isinstance(value, property):
            self._waiting.append((value.fget, where, True))
        elif isinstance(value, staticmethod | classmethod):
            self._waiting.append((value.__func__, where, True))
        elif isinstance(value, functools.cached_property | functools.partialmethod):
            self._waiting.append((value.func, where, True))
        elif isinstance(value, functools.partial):
            self._waiting += [(getattr(value, name), f"{where}.{name}", True) for name in ("keywords", "args", "func")]
        elif isinstance(value, types.ModuleType):
            self._module(value, where)
        elif isinstance(value, type):
            self._class(value, constructs=True)
        else:
            self._object(value, where)

    def _container(self, value: Any, where: str, opens: bool) -> None:
        if origin(type(value).__module__) == "user":
            self._object(value, where)
        if is_long(value):
            if opens and not isinstance(value, tuple | frozenset):
                self.checks.sized.add(value, len(value))
            return
        if opens:
            self.checks.contents(value)
        for key, item in entries(value):
            if opens:
                self._note(f"{where}[{key!r}]", item)
            else:
                self._waiting.append((item, f"{where}[{key!r}]", False))

    def _function(self, function: types.FunctionType, where: str) -> None:
        module, space = str(function.__module__), function.__globals__
        if is_closed(module) or function.__code__ in self._scope.hosts:
            return  # these hold no values of a user; parameters and layers are guarded in `_children`
        is_users = origin(module) == "user"
        names = names_of(function.__code__, self._scope.hosts)
        if origin(module) != "library":
            (self._scope.users if is_users else self._scope.packages).update(names.attributes)
            if function.__name__ not in _CONSTRUCTION:
                self._scope.stored |= names.stored
                self._scope.stored_by_packages |= frozenset() if is_users else names.stored
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if (name in names.free or not self._scope.hosts) and name != "__class__":
                self._attribute(name, cell, "cell_contents", opens=origin(module) != "package")
        if not is_users:
            found = (space.get(name) for name in names.globals) if origin(module) == "package" else ()
            self._waiting += [(each, each.__name__, True) for each in found if isinstance(each, types.FunctionType)]
            return
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            self._attribute(f"{where or function.__name__}.{name}", function, name)
        self._entries_named(function.__dict__, where or function.__name__, types.FunctionType)
        for name in names.globals:
            if name in space or hasattr(builtins, name):
                self._item(name, space, name)
        for name in names.imports:
            relative = f"{space.get('__package__')}.{name}".rstrip(".")
            found_modules = (sys.modules.get(each) for each in (name, relative))
            self._waiting += [(each, str(each.__name__), True) for each in found_modules if each is not None]

    def _module(self, module: types.ModuleType, where: str) -> None:
        """Visits the named attributes of a user's module; those of installed packages are constants."""
        if origin(module.__name__) == "user" and "site-packages" not in (getattr(module, "__file__", None) or ""):
            for name in self._scope.users & vars(module).keys():
                self._item(f"{where}.{name}", vars(module), name)

    def _class(self, kind: type, *, constructs: bool) -> None:
        """Visits attributes that code names, and methods that operators call; classes of packages don't change."""
        for base in kind.__mro__:
            at, namespace = origin(base.__module__), vars(base)
            if at == "library" or base.__module__ == "trainer.engine.nn.module":
                continue
            if at == "user" and base not in self._classes:
                self.checks.sized.add(namespace, len(namespace))
                self.checks.attributes.add(base, "__mro__", base.__mro__)
                self.values[f"{base.__name__}.__mro__", id(base)] = base.__mro__
            for name, value in tuple(namespace.items()):
                is_read = base not in self._classes and self._is_named(name, value)
                if constructs if name in _CONSTRUCTION else is_read:
                    self._class_item(base, name, value)
                elif base not in self._classes and not name.startswith("__"):
                    visit = functools.partial(self._class_item, base, name, value)
                    self._unnamed.setdefault(name, []).append(visit)
            self._classes.add(base)

    def _class_item(self, base: type, name: str, value: Any) -> None:
        at = origin(base.__module__)
        if at == "user" and self._note(f"{base.__name__}.{name}", value, is_skipped=self._is_own(name, value)):
            self.checks.class_items.add(vars(base), name, value)
        elif at == "package" and isinstance(value, _FUNCTIONS):
            self._waiting.append((value, f"{base.__name__}.{name}", True))

    def _is_named(self, name: str, value: Any) -> bool:
        if name.startswith("__") and name.endswith("__"):
            return isinstance(value, _FUNCTIONS) and name not in _UNCALLED
        return name == "forward" or name in self._scope.users or name in self._scope.packages

    def _object(self, value: Any, where: str) -> None:
        kind, at = type(value), origin(type(value).__module__)
        fields = fields_of(value)
        if "__wrapped__" in fields:  # a traced step within this one, or a cache around a function
            self._waiting.append((fields["__wrapped__"], where, True))
        if at == "library" or kind.__module__.startswith(("trainer.engine.program.", "trainer.engine.targets")):
            return
        self._class(kind, constructs=False)
        if not is_frozen(kind):
            self.checks.instances.add(value, kind)
            self.checks.sized.add(fields, len(fields))
            if at == "user" and fields:
                self.checks.attributes.add(value, "__dict__", fields)
        self._entries_named(fields, where, kind)
        if at == "user":
            for name, slot in slots_of(value):
                if name in self._scope.users or name in self._scope.packages:
                    self._attribute(f"{where}.{name}", value, name, is_skipped=self._is_own(name, slot))
            for name, default in self._class_values(kind).items():
                if name not in fields:
                    self._note(f"{where}.{name}", default, is_skipped=self._is_own(name, default))
        if is_module(kind):
            self._children(value, where)

    def _children(self, module: Any, where: str) -> None:
        """Visits the parameters, buffers and layers of a `Module`."""
        for name, state in module._states.items():
            self._note(f"{where}.{name}", state if isinstance(state, Tensor) else DECLARED)
            self.checks.items.add(module._states, name, state)
        self.checks.sized.add(module._states, len(module._states))
        if module._children:
            self.checks.contents(module._children)
        else:
            self.checks.sized.add(module._children, len(module._children))
        for name, child in module._children.items():
            self._note(f"{where}.{name}", child)

    def _entries_named(self, fields: dict[str, Any], where: str, kind: type) -> None:
        """Visits the attributes that code names, among the instance attributes of an object of class `kind`."""
        scope, is_of_tree = self._scope, is_module(kind)
        for name in tuple(fields):
            if is_of_tree and name in _TREE:
                continue
            if name in scope.users or name in scope.packages or name == "forward":
                self._entry_named(fields, name, where, kind)
            else:
                visit = functools.partial(self._entry_named, fields, name, where, kind)
                self._unnamed.setdefault(name, []).append(visit)

    def _entry_named(self, fields: dict[str, Any], name: str, where: str, kind: type) -> None:
        value, is_package = fields[name], origin(kind.__module__) == "package"
        opens = not is_package and name in self._scope.users
        if is_frozen(kind):
            self._note(f"{where}.{name}", value, opens=opens)
        else:
            is_own = self._is_own(name, value, is_package=is_package)
            self._item(f"{where}.{name}", fields, name, is_skipped=is_own, opens=opens)

    def _is_own(self, name: str, value: Any, *, is_package: bool = False) -> bool:
        """Whether the step itself may assign the attribute each time it is traced."""
        scope = self._scope
        return (is_package and name in scope.stored_by_packages) or (name in scope.stored and is_constant(value))

    def _class_values(self, kind: type) -> dict[str, Any]:
        """The class attributes that code names, of a user's class, by name: an instance attribute would hide them."""
        if kind not in self._inherited:
            found: dict[str, Any] = {}
            for base in reversed(kind.__mro__):
                if origin(base.__module__) == "user":
                    found.update((name, value) for name, value in vars(base).items() if not name.startswith("__"))
            named = self._scope.users | self._scope.packages | {"forward"}
            self._inherited[kind] = {name: value for name, value in found.items() if name in named}
        return self._inherited[kind]


def walk(roots: Iterable[tuple[str, Any]], scope: Scope, ignored: frozenset[str]) -> Dependencies:
    """Returns everything reachable from `roots`, once `scope` has the names of all reachable functions."""
    roots = tuple(roots)
    while True:
        names = len(scope)
        found = Dependencies(roots, scope, ignored)
        if len(scope) == names:
            return found
