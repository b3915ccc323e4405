"""Attributes of primitives as JSON, and back with every check: one kind for each attribute name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from trainer import TrainerError
from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.primitives import canonical
from trainer.engine.safetensors import is_counts

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

_LARGEST_WEIGHT = 1.7e308

Refuse = Callable[[str, object, str], TrainerError]
"""Makes the error for (attribute, found, expected)."""


def to_json(value: Any) -> Any:
    """An attribute as JSON: numbers, texts, lists of them; dtypes by name, what JSON has no number for by its name."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"no attribute of the format: {value!r}")


def from_json(name: str, value: Any, dtype: DType | None, refuse: Refuse) -> Any:
    """The attribute `name`; `dtype` is what a `value` is of, where it is known.

    Raises:
        TrainerError: it is not of the attribute's kind.
    """
    return _KINDS[name](name, value, dtype, refuse)


def known(name: str) -> bool:
    """Whether the format has the attribute."""
    return name in _KINDS


def _count(name: str, value: Any, dtype: DType | None, refuse: Refuse) -> int:
    if not is_counts([value]):
        raise refuse(name, value, "a whole number of at least 0")
    return int(value)


def _counts(name: str, value: Any, dtype: DType | None, refuse: Refuse) -> tuple[int, ...]:
    if not is_counts(value):
        raise refuse(name, value, "whole numbers of at least 0")
    return tuple(value)


def _pair(name: str, value: Any, dtype: DType | None, refuse: Refuse) -> tuple[int, ...]:
    if not is_counts(value) or len(value) != 2:
        raise refuse(name, value, "two whole numbers of at least 0")
    return tuple(value)


def _pairs(name: str, value: Any, dtype: DType | None, refuse: Refuse) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list) or len(value) != 2:
        raise refuse(name, value, "two pairs of whole numbers")
    return tuple(_pair(name, item, dtype, refuse) for item in value)


def dtype_from(name: str, value: Any, dtype: DType | None, refuse: Refuse) -> DType:
    """The element type of that name."""
    if not isinstance(value, str) or value not in dtypes.BY_NAME:
        raise refuse(name, value, ", ".join(dtypes.BY_NAME))
    return dtypes.BY_NAME[value]


def _band(name: str, value: Any, dtype: DType | None, refuse: Refuse) -> tuple[Any, ...]:
    """The rows of a banded matrix: [extent, [[start, [weights]], …]]."""
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], list):
        raise refuse(name, value, "an extent and its runs")
    runs = []
    for run in value[1]:
        if not isinstance(run, list) or len(run) != 2 or not isinstance(run[1], list):
            raise refuse(name, run, "where a run begins, and its weights")
        if any(type(weight) not in (int, float) or not abs(weight) <= _LARGEST_WEIGHT for weight in run[1]):
            raise refuse(name, run, "finite numbers")
        runs.append((_count(name, run[0], dtype, refuse), tuple(map(float, run[1]))))
    return _count(name, value[0], dtype, refuse), tuple(runs)


def _precision(name: str, value: Any, dtype: DType | None, refuse: Refuse) -> DType | None:
    return None if value is None else dtype_from(name, value, dtype, refuse)


def _tag(name: str, value: Any, dtype: DType | None, refuse: Refuse) -> str | int:
    if type(value) is not str and type(value) is not int:
        raise refuse(name, value, "a text or a whole number")
    return value


def _flag(name: str, value: Any, dtype: DType | None, refuse: Refuse) -> bool:
    if type(value) is not bool:
        raise refuse(name, value, "true or false")
    return value


def _number(name: str, value: Any, dtype: DType | None, refuse: Refuse) -> bool | int | float:
    """A number that `dtype` has exactly."""
    if dtype is None:
        raise refuse(name, value, "a number of a known dtype")
    if dtype.is_float and isinstance(value, str):
        if value not in _NOT_FINITE:
            raise refuse(name, value, "a number, or nan, inf or -inf")
        return canonical(_NOT_FINITE[value], dtype)
    wanted = {"bool": (bool,), "float": (int, float)}.get(dtype.kind, (int,))
    if type(value) not in wanted:
        raise refuse(name, value, f"a number of {dtype}")
    try:
        number = canonical(value, dtype)
    except OverflowError:
        number = math.inf
    if float(number) != value if dtype.is_float else number != value:
        raise refuse(name, value, f"a number that {dtype} has exactly")
    return number


_KINDS: dict[str, Callable[[str, Any, DType | None, Refuse], Any]] = {
    "axes": _counts,
    "axis": _count,
    "columns": _band,
    "descending": _flag,
    "dilation": _pair,
    "dtype": dtype_from,
    "groups": _count,
    "high": _counts,
    "interior": _counts,
    "low": _counts,
    "padding": _pairs,
    "precision": _precision,
    "rows": _band,
    "shape": _counts,
    "size": _count,
    "spatial": _pair,
    "start": _counts,
    "step": _counts,
    "stop": _counts,
    "strides": _pair,
    "tag": _tag,
    "value": _number,
    "window": _pair,
    "word": _count,
}
