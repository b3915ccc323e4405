"""Converts events to lines of `events.jsonl` and back.

A line is one JSON object with `kind`, `time` (seconds since 1970), `since_start` (seconds since this attempt's process
started), `attempt`, and the fields of the kind. Fields that are None are omitted. Non-finite numbers are the strings
"nan", "inf" and "-inf".
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer.rundir.events import KINDS, Event, MetricEvent, Record, UnknownEvent

NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


LATEST_SECONDS = 1e11
"""The year 5138: a later time is damage, and no calendar can display it."""
MOST_INTEGER = 2**63 - 1
"""JSON integers have any length, but columns of numbers have 64 bits."""


def encode(event: Event, *, time: float, since_start: float, attempt: int) -> bytes:
    """The event's line, newline included.

    Raises:
        TypeError: a field is neither a number, text, a sequence nor a mapping.
    """
    line: dict[str, Any] = {
        "kind": event.kind,
        "time": round(time, 6),
        "since_start": round(since_start, 6),
        "attempt": attempt,
    }
    if isinstance(event, UnknownEvent):
        line.update(json_value(event.fields))
    else:
        for name in _field_names(type(event)):
            value = getattr(event, name)
            if value is not None:
                line[name] = json_value(value)
    return (
        json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "backslashreplace")
        + b"\n"
    )


def decode(line: bytes | str) -> Record | None:
    """The record in one complete line, or None if the line is not a JSON object (a torn or foreign line)."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _record(fields)


def decode_lines(lines: Sequence[bytes]) -> list[Record | None]:
    """`decode` for several lines with one parser call, because a call costs more than parsing a line."""
    try:
        parsed = json.loads(b"[" + b",\n".join(lines) + b"]")
    except (ValueError, RecursionError):
        parsed = []
    if len(parsed) != len(lines):  # one of them is not valid JSON
        return [decode(line) for line in lines]
    return [_record(fields) for fields in parsed]


def _record(fields: object) -> Record | None:
    if not isinstance(fields, dict):
        return None
    kind = fields.pop("kind", "")
    time, since_start, attempt = fields.pop("time", 0.0), fields.pop("since_start", 0.0), fields.pop("attempt", 1)
    return Record(
        _event(kind, fields),
        time if isinstance(time, int | float) and abs(time) < LATEST_SECONDS else 0.0,
        since_start if isinstance(since_start, int | float) and abs(since_start) < LATEST_SECONDS else 0.0,
        attempt if _read_int(attempt) is not None else 1,
    )


def _event(kind: object, fields: dict[str, Any]) -> Event:
    if kind == MetricEvent.kind and (metric := _plain_metric(fields)) is not None:
        return metric
    known = KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        return UnknownEvent(str(kind), fields)
    values = {}
    for name, reads, required in _readers(known):
        if name in fields:
            value = reads(fields[name])
            if value is None:
                return UnknownEvent(known.kind, fields)
            values[name] = value
        elif required:
            return UnknownEvent(known.kind, fields)
    return known(**values)


def _plain_metric(fields: dict[str, Any]) -> MetricEvent | None:
    """A fast path for the most frequent event in its usual form, without the loop over fields; None for other forms."""
    step, epoch, split, final = fields.get("step"), fields.get("epoch"), fields.get("split"), fields.get("final", False)
    values = fields.get("values")
    if not (type(step) is int and type(epoch) is float and type(split) is str and type(final) is bool):
        return None
    if abs(step) > MOST_INTEGER:
        return None
    if not (type(values) is dict and all(type(value) is float for value in values.values())):
        return None
    return MetricEvent(step, epoch, split, values, final)


def json_value(value: Any) -> Any:
    """The value as JSON types; non-finite numbers as text, NumPy scalars as numbers."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [json_value(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "__index__"):
        return int(value)
    if hasattr(value, "__float__"):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    raise TypeError(f"an event can't hold a {type(value).__name__}: {value!r}")


# --- reading: one function per declared type converts a JSON value to the field's value, or None if it doesn't fit --


def _read_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _read_int(value: Any) -> int | None:
    return value if isinstance(value, int) and abs(value) <= MOST_INTEGER else None


def _read_bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _read_float(value: Any) -> float | None:
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        return _read_int(value)
    return NON_FINITE.get(value) if isinstance(value, str) else None


def _read_numbers(value: Any) -> dict[str, float] | None:
    if not isinstance(value, dict):
        return None
    numbers = {}
    for name, item in value.items():
        number = _read_float(item)
        if number is None:
            return None
        numbers[name] = number
    return numbers


def _read_texts(value: Any) -> tuple[str, ...] | None:
    return tuple(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def _read_number_rows(value: Any) -> tuple[dict[str, float], ...] | None:
    rows = [_read_numbers(item) for item in value] if isinstance(value, list) else [None]
    return None if any(row is None for row in rows) else tuple(row for row in rows if row is not None)


def _read_rows(value: Any) -> tuple[dict[str, Any], ...] | None:
    """Rows of numbers and texts."""
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        return None
    fits = all(isinstance(item, str) or _read_float(item) is not None for row in value for item in row.values())
    return tuple(value) if fits else None


_READ_BY_TYPE: dict[str, Callable[[Any], Any]] = {
    "str": _read_text,
    "int": _read_int,
    "bool": _read_bool,
    "float": _read_float,
    "Mapping[str, float]": _read_numbers,
    "Mapping[str, int]": _read_numbers,
    "Sequence[str]": _read_texts,
    "Sequence[Mapping[str, float]]": _read_number_rows,
    "Sequence[Mapping[str, Any]]": _read_rows,
}

_READERS: dict[type[Event], tuple[tuple[str, Callable[[Any], Any], bool], ...]] = {}


def _readers(kind: type[Event]) -> tuple[tuple[str, Callable[[Any], Any], bool], ...]:
    """(name, reader, required) for each field of a kind, computed once from its declarations."""
    if kind not in _READERS:
        _READERS[kind] = tuple(
            (
                name,
                _READ_BY_TYPE[kind.__annotations__[name].removesuffix(" | None")],
                not hasattr(kind, name),
            )
            for name in kind._fields
        )
    return _READERS[kind]


def _field_names(kind: type[Event]) -> tuple[str, ...]:
    return tuple(name for name, _, _ in _readers(kind))
