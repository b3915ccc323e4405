"""Guards: Python values that a traced step was built from, checked before each replay so that none goes stale.

Numbers, strings and flags are compared by value, arrays and tensors by identity. What is watched is decided by what the
step's code can see (`compile.reach`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainer import TrainerError
from trainer.engine.compile.reach import ABSENT, ARRAYS, Reach, Watch, function_of


class Guards:
    """A snapshot of what `function` sees; `check` raises where something has changed since."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._watches: list[Watch] = []
        self._stored: set[str] = set()
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

    def check(self) -> None:
        """Raise a `TrainerError` that names the first value which is not what it was when the step was traced."""
        for watch in self._watches:
            now, value = watch.read(), watch.value
            if now is not value and (isinstance(value, ARRAYS) or type(now) is not type(value) or now != value):
                raise TrainerError(
                    f"{watch.where} changed after the step that uses it was traced",
                    where=self._place,
                    found="another one" if isinstance(value, ARRAYS) else _described(now),
                    expected=f"{_described(value)}, as it was when the step was traced",
                    hint="Make it a State (engine.State) and assign to it, or pass it to the step as an array.",
                )


def _described(value: Any) -> str:
    """A value for a message; tensors may have no value to show."""
    if value is ABSENT:
        return "nothing"
    return f"the {type(value).__name__}" if isinstance(value, ARRAYS) else repr(value)
