"""Programs for any batch size: `{"batch": k, "plus": c}` in a document means k times the batch size plus c.

`at_every_batch` derives them from the same function traced at three sizes; `at_batch` replaces them by numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer import TrainerError
from trainer.engine.graph.errors import user_line

BATCH, PLUS = "batch", "plus"
SIZES = (61, 67, 71)
"""Batch sizes at which a function is traced: two determine the formula, the third checks it. They are primes, which
other extents rarely equal.
"""
LARGEST = 1 << 48
VARYING_FIELDS = ("shape", "attributes")
"""The fields of a node in which numbers may depend on the batch size."""

Nodes = Sequence[dict[str, Any]]
Lines = Sequence[str | None]


class _Differs(Exception):
    """Values that are not a multiple of the batch size plus a number."""


def at_every_batch(traced: Sequence[tuple[Nodes, Lines]]) -> list[dict[str, Any]]:
    """Returns the nodes for any batch size, from those at each of `SIZES` with the user's line of each node.

    Raises:
        TrainerError: the nodes differ in more than integers that grow linearly with the batch size.
    """
    found = []
    columns = [nodes for nodes, _ in traced]
    for number, entries in enumerate(zip(*columns, strict=False)):
        first, line = entries[0], traced[0][1][number]
        if any(_fixed(entry) != _fixed(first) for entry in entries):
            raise _refused("runs other operations", " or ".join(dict.fromkeys(_brief(each) for each in entries)), line)
        try:
            varying = {name: _unified([entry[name] for entry in entries]) for name in VARYING_FIELDS if name in first}
        except _Differs as error:
            values = ", ".join(f"{value!r:.80} for {size}" for value, size in zip(error.args, SIZES, strict=True))
            raise _refused(
                "computes with numbers that do not grow linearly with it", f"{_brief(first)}: {values}", line
            ) from None
        found.append({**first, **varying})
    if len(set(map(len, columns))) > 1:
        counts = ", ".join(f"{len(nodes)} for {size}" for nodes, size in zip(columns, SIZES, strict=True))
        raise _refused("runs another number of operations", f"{counts} operations", None)
    return found


def _fixed(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in VARYING_FIELDS}


def _brief(entry: dict[str, Any]) -> str:
    return f"`{entry['operation']}` of {entry['dtype']}"


def _refused(problem: str, found: str, line: str | None) -> TrainerError:
    return TrainerError(
        f"save_program: for another batch size the function {problem}", where=line or user_line(), found=found,
        expected="the same operations, whose shapes are a multiple of the batch size plus a number",
        hint="Leave losses, means over the batch and loops over its items out of a program for any batch size.",
    )  # fmt: skip


def _unified(values: Sequence[Any]) -> Any:
    """Returns the formula that gives each value at its batch size."""
    first, second, third = values
    if any(type(value) is not type(first) for value in values):
        raise _Differs(*values)
    if isinstance(first, dict):
        if not first.keys() == second.keys() == third.keys():
            raise _Differs(*values)
        return {name: _unified([value[name] for value in values]) for name in first}
    if isinstance(first, list):
        if not len(first) == len(second) == len(third):
            raise _Differs(*values)
        return [_unified(items) for items in zip(*values, strict=True)]
    if first == second == third:
        return first
    if type(first) is not int:
        raise _Differs(*values)
    factor, remainder = divmod(second - first, SIZES[1] - SIZES[0])
    plus = first - factor * SIZES[0]
    if remainder or third != factor * SIZES[2] + plus:
        raise _Differs(*values)
    return {BATCH: factor, PLUS: plus}


def at_batch(value: Any, batch: int) -> Any:
    """Evaluates the formulas in `value` at a batch size; an object of other fields stays as it is.

    Raises:
        ValueError: a factor is not a 48-bit integer.
    """
    if isinstance(value, list):
        return [at_batch(item, batch) for item in value]
    if not is_varying(value):
        return value
    factor, plus = value[BATCH], value[PLUS]
    if not all(type(number) is int and abs(number) < LARGEST for number in (factor, plus)):
        raise ValueError(f"{value!r:.200}")
    return factor * batch + plus


def is_varying(value: Any) -> bool:
    """Whether `value` has the fields of a number that depends on the batch size."""
    return isinstance(value, dict) and value.keys() == {BATCH, PLUS}


def extent_text(value: Any) -> str | int:
    """Returns an extent as text for people: `batch`, `100*batch`, `batch+1`, or the number."""
    if not is_varying(value):
        return int(value)
    factor = "" if value[BATCH] == 1 else f"{value[BATCH]}*"
    plus = f"{value[PLUS]:+}" if value[PLUS] else ""
    return f"{factor}batch{plus}"
