"""Checks that everything a step read is still the same object, by columns that the interpreter compares in C."""

from __future__ import annotations

from itertools import chain, repeat
from operator import eq, getitem, is_
from typing import Any

from trainer.engine.tracing.constants import PLAIN, is_same_value

ABSENT: Any = object()
"""The value of an absent key or attribute."""


class Columns(tuple[list[Any], ...]):
    """Rows of one kind, stored as one list for each column."""

    def add(self, *row: Any) -> None:
        """Adds a row."""
        for column, value in zip(self, row, strict=True):
            column.append(value)


class IdentityChecks:
    """Columns of places and of the objects found there; `is_same` compares them again."""

    def __init__(self) -> None:
        self.items = Columns(([], [], []))
        """Dictionaries, keys, and their values or ABSENT."""
        self.class_items = Columns(([], [], []))
        """Namespaces of classes, names, values."""
        self.attributes = Columns(([], [], []))
        """Cells, functions and objects with slots; names; and the results of `getattr`."""
        self.instances = Columns(([], []))
        """Objects and their classes."""
        self.sized = Columns(([], []))
        """Containers and namespaces, and their lengths, which change when an entry is added."""
        self._sets = Columns(([], []))  # sets, copies
        self._lists: tuple[list[Any], list[Any]] = ([], [])  # lists, the items of all of them
        self._dicts: tuple[list[Any], list[Any], list[Any]] = ([], [], [])  # dictionaries, all keys, all values

    def contents(self, value: Any) -> None:
        """Adds all items of a list, all keys and values of a dictionary in their order, or the members of a set."""
        if isinstance(value, dict):
            self._dicts[0].append(value)
            self._dicts[1].extend(dict.keys(value))
            self._dicts[2].extend(dict.values(value))
        elif isinstance(value, list):
            self._lists[0].append(value)
            self._lists[1].extend(list.__iter__(value))
        elif isinstance(value, set):
            self._sets.add(value, value.copy())
        if not isinstance(value, tuple | frozenset):
            self.sized.add(value, len(value))

    def is_same(self) -> bool:
        """Returns False if something may have changed: an object was replaced, perhaps by an equal one."""
        items, class_items, attributes = self.items, self.class_items, self.attributes
        try:
            return (
                list(map(len, self.sized[0])) == self.sized[1]
                and (all(map(is_, map(dict.get, items[0], items[1], repeat(ABSENT)), items[2])) or self._are_equal())
                and all(map(is_, map(type, self.instances[0]), self.instances[1]))
                and all(map(is_, map(getitem, class_items[0], class_items[1]), class_items[2]))
                and all(map(is_, map(getattr, attributes[0], attributes[1]), attributes[2]))
                and all(map(is_, chain.from_iterable(map(list.__iter__, self._lists[0])), self._lists[1]))
                and all(map(is_, chain.from_iterable(map(dict.keys, self._dicts[0])), self._dicts[1]))
                and all(map(is_, chain.from_iterable(map(dict.values, self._dicts[0])), self._dicts[2]))
                and all(map(eq, self._sets[0], self._sets[1]))
            )
        except (AttributeError, KeyError, ValueError):
            return False  # an attribute or a key is gone

    def _are_equal(self) -> bool:
        """Whether replaced entries of dictionaries are equal plain values, such as a number that was set again."""
        for holder, key, value in zip(*self.items, strict=True):
            now = holder.get(key, ABSENT)
            if now is not value and not (isinstance(value, PLAIN) and is_same_value(value, now)):
                return False
        return True
