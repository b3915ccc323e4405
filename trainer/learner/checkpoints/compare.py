"""Compares two checkpoints bit by bit, and finds the first difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from trainer.learner.checkpoints.format import Array, Checkpoint

NOT_COMPARED = ("seconds", "config")
"""Keys that may differ between equal states: times, and values on which the state does not depend."""


def first_difference(one: Checkpoint, other: Checkpoint) -> tuple[str, str] | None:
    """The name and description of the first difference; None: everything except `NOT_COMPARED` is equal."""
    return next(_differences(one, other), None)


def _differences(one: Checkpoint, other: Checkpoint) -> Iterator[tuple[str, str]]:
    arrays, others = _flat(one), _flat(other)
    for name in sorted(arrays.keys() | others.keys()):
        if name not in arrays or name not in others:
            yield name, "only in the " + ("first" if name in arrays else "second")
        elif difference := _difference(arrays[name], others[name]):
            yield name, difference
    for key in sorted(one.state.keys() | other.state.keys()):
        if key not in NOT_COMPARED and (found := _first(one.state.get(key), other.state.get(key), key)):
            yield found


def _flat(checkpoint: Checkpoint) -> dict[str, Array]:
    return {f"{stem}/{name}": array for stem, group in checkpoint.arrays.items() for name, array in group.items()}


def _difference(one: Array, other: Array) -> str:
    if one.dtype != other.dtype or one.values.shape != other.values.shape:
        return f"{one.dtype} {one.values.shape} and {other.dtype} {other.values.shape}"
    size = one.values.dtype.itemsize
    bits, others = (
        np.ascontiguousarray(array.values).reshape(-1).view(np.uint8).reshape(-1, size) for array in (one, other)
    )
    differs = (bits != others).any(axis=1)
    if not differs.any():
        return ""
    first = int(differs.argmax())
    place = [int(index) for index in np.unravel_index(first, one.values.shape)]
    values = one.widened().reshape(-1)[first], other.widened().reshape(-1)[first]
    return f"{int(differs.sum())} of {differs.size} elements, the first at {place}: {values[0]!s} and {values[1]!s}"


def _first(one: Any, other: Any, key: str) -> tuple[str, str] | None:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        below = (_first(one.get(name), other.get(name), f"{key}/{name}") for name in sorted(one.keys() | other.keys()))
        return next((found for found in below if found is not None), None)
    return None if one == other else (f"state.json {key}", f"{one!r} and {other!r}")
