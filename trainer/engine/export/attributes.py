"""Converts attributes of primitives to JSON, and back with full checks: each attribute name has one kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from trainer import TrainerError
from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.primitives import canonical
from trainer.engine.graph.primitives.recurrent import CELLS
from trainer.engine.safetensors import is_counts

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

_LARGEST_WEIGHT = 1.7e308

Refuse = Callable[[str, object, str], TrainerError]
"""Returns the error for (attribute, found, expected)."""


class _Unfit(Exception):
    """An attribute has the wrong kind; the arguments are the value found and the kind expected."""


def to_json(value: Any) -> Any:
    """Converts an attribute to JSON: numbers, strings and lists of them; dtypes and non-finite floats by name."""
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
    """Converts JSON to the attribute `name`; `dtype` is the dtype of the attribute `value`, if known.

    Raises:
        TrainerError: the JSON is not of the attribute's kind.
    """
    try:
        return _number(value, dtype) if name == "value" else KINDS[name](value)
    except _Unfit as error:
        raise refuse(name, *error.args) from None


def _need(holds: bool, found: object, expected: str) -> None:
    if not holds:
        raise _Unfit(found, expected)


def _count(value: Any) -> int:
    _need(is_counts([value]), value, "an integer of at least 0")
    return int(value)


def _counts(value: Any) -> tuple[int, ...]:
    _need(is_counts(value), value, "integers of at least 0")
    return tuple(value)


def _pair(value: Any) -> tuple[int, ...]:
    _need(is_counts(value) and len(value) == 2, value, "two integers of at least 0")
    return tuple(value)


def _pairs(value: Any) -> tuple[tuple[int, ...], ...]:
    _need(isinstance(value, list) and len(value) == 2, value, "two pairs of integers")
    return tuple(map(_pair, value))


def _dtype(value: Any) -> DType:
    """Returns the dtype of that name."""
    _need(isinstance(value, str) and value in dtypes.BY_NAME, value, ", ".join(dtypes.BY_NAME))
    return dtypes.BY_NAME[value]


def _precision(value: Any) -> DType | None:
    return None if value is None else _dtype(value)


def _band(value: Any) -> tuple[Any, ...]:
    """Reads the rows of a banded matrix: [extent, [[start, [weights]], …]]."""
    _need(isinstance(value, list) and len(value) == 2 and isinstance(value[1], list), value, "an extent and its runs")
    return _count(value[0]), tuple(map(_run, value[1]))


def _run(run: Any) -> tuple[int, tuple[float, ...]]:
    is_run = isinstance(run, list) and len(run) == 2 and isinstance(run[1], list)
    _need(is_run, run, "where a run begins, and its weights")
    is_finite = all(type(weight) in (int, float) and abs(weight) <= _LARGEST_WEIGHT for weight in run[1])
    _need(is_finite, run, "finite numbers")
    return _count(run[0]), tuple(map(float, run[1]))


def _tag(value: Any) -> str | int:
    _need(type(value) is str or type(value) is int, value, "a text or an integer")
    return value


def _cell(value: Any) -> str:
    _need(isinstance(value, str) and value in CELLS, value, ", ".join(CELLS))
    return str(value)


def _finite(value: Any) -> float:
    _need(type(value) in (int, float) and abs(value) <= _LARGEST_WEIGHT, value, "a finite number")
    return float(value)


def _names(value: Any) -> tuple[str, ...]:
    _need(isinstance(value, list) and all(type(item) is str for item in value), value, "texts")
    return tuple(value)


def _flag(value: Any) -> bool:
    _need(type(value) is bool, value, "true or false")
    return bool(value)


def _number(value: Any, dtype: DType | None) -> bool | int | float:
    """Reads a number that `dtype` represents exactly."""
    if dtype is None:
        raise _Unfit(value, "a number of a known dtype")
    if dtype.is_float and isinstance(value, str):
        _need(value in _NOT_FINITE, value, "a number, or nan, inf or -inf")
        return canonical(_NOT_FINITE[value], dtype)
    types = {"bool": (bool,), "float": (int, float)}.get(dtype.kind, (int,))
    _need(type(value) in types, value, f"a number of {dtype}")
    try:
        number = canonical(value, dtype)
    except OverflowError:
        number = math.inf
    is_exact = float(number) == value if dtype.is_float else number == value
    _need(is_exact, value, f"a number that {dtype} has exactly")
    return number


KINDS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("axis", "count", "groups", "index", "size", "spacing", "stride", "word"), _count),
    **dict.fromkeys(("axes", "high", "interior", "low", "shape", "start", "step", "stop"), _counts),
    **dict.fromkeys(("dilation", "spatial", "strides", "window"), _pair),
    **dict.fromkeys(("columns", "rows"), _band),
    "cell": _cell,
    **dict.fromkeys(("dropout", "scale"), _finite),
    "descending": _flag,
    "dtype": _dtype,
    "operands": _names,
    "padding": _pairs,
    "precision": _precision,
    "reverse": _flag,
    "tag": _tag,
    "value": _number,
}
"""The reader of each attribute; a `value` also needs its dtype."""
