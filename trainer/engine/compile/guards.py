"""Guards: Python values that a traced step was built from, checked before each replay so that none goes stale.

Numbers, strings and flags are compared by value, arrays and tensors by identity. What is watched is decided by what the
step's code can see (`compile.reach`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import contains, getitem, is_
from typing import Any

from trainer import TrainerError
from trainer.engine.compile.reach import ABSENT, ARRAYS, Reach, Watch, function_of


class Guards:
    """A snapshot of what `function` sees; `check` raises where something has changed since."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._watches: list[Watch] = []
        self._stored: set[str] = set()
        self._glance = _Glance([])
        self._place: str | None = None
        target, owner = function_of(function)
        if target is not None:
            self._place = f"{target.__code__.co_filename}:{target.__code__.co_firstlineno}"
            reach = Reach(target, owner)
            self._watches, self._stored = reach.watches(), reach.stored

    def settle(self) -> None:
        """To be called once the step has been traced: what the step itself assigns can't be watched.

        Raises:
            TrainerError: it counts in a Python number, which would stand still from now on.
        """
        kept = []
        for watch in self._watches:
            own = watch.attribute is None or watch.attribute in self._stored
            if own and isinstance(watch.value, int | float) and not isinstance(watch.value, bool):
                now = watch.read()
                if now != watch.value:
                    raise TrainerError(
                        f"{watch.where} is assigned inside a traced step, which runs only once",
                        where=self._place,
                        found=f"{_described(watch.value)} before and {_described(now)} after tracing",
                        hint="Make it a State (engine.State) and assign to it.",
                    )
            if watch.attribute not in self._stored:
                kept.append(watch)
        self._watches = kept
        self._glance = _Glance(kept)

    def check(self) -> None:
        """Raise a `TrainerError` that names the first value which is not what it was when the step was traced."""
        if not self._glance.is_same():
            self._look(self._watches)
        self._look(self._glance.others)

    def _look(self, watches: Iterable[Watch]) -> None:
        for watch in watches:
            now, value = watch.read(), watch.value
            if now is not value and (isinstance(value, ARRAYS) or type(now) is not type(value) or now != value):
                raise TrainerError(
                    f"{watch.where} changed after the step that uses it was traced",
                    where=self._place,
                    found="another one" if isinstance(value, ARRAYS) else _described(now),
                    expected=f"{_described(value)}, as it was when the step was traced",
                    hint="Make it a State (engine.State) and assign to it, or pass it to the step as an array.",
                )


class _Glance:
    """Whether attributes are the very objects that they were: as columns, which the interpreter walks in C.

    After a step the caches hold nothing of this. One watch after the other cost 0.4 µs each then, an attribute of a
    class 3 µs: with 200 of them more than all the rest of what is done between two steps.
    """

    def __init__(self, watches: Iterable[Watch]) -> None:
        self.others: list[Watch] = []
        """What is no attribute."""
        own: list[tuple[Any, str, Any]] = []
        inherited: list[tuple[Any, str]] = []
        of_classes: dict[tuple[type, str], Any] = {}
        for watch in watches:
            if watch.holder is None or watch.attribute is None:
                self.others.append(watch)
            elif watch.kind is None:
                own.append((watch.holder, watch.attribute, watch.value))
            else:
                inherited.append((watch.holder, watch.attribute))
                of_classes[watch.kind, watch.attribute] = watch.value
        self._holders, self._names, self._values = ([row[column] for row in own] for column in range(3))
        self._heirs, self._inherited = ([row[column] for row in inherited] for column in range(2))
        self._classes, self._class_names = [kind for kind, _ in of_classes], [name for _, name in of_classes]
        self._defaults = list(of_classes.values())

    def is_same(self) -> bool:
        """False where something may have changed: it is another object, but may be an equal one."""
        try:
            return (
                all(map(is_, map(getitem, self._holders, self._names), self._values))
                and not any(map(contains, self._heirs, self._inherited))
                and all(map(is_, map(getattr, self._classes, self._class_names), self._defaults))
            )
        except (KeyError, AttributeError):
            return False  # it is gone


def _described(value: Any) -> str:
    """A value for a message; tensors may have no value to show."""
    if value is ABSENT:
        return "nothing"
    return f"the {type(value).__name__}" if isinstance(value, ARRAYS) else repr(value)
