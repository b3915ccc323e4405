"""Arrays and metadata as one safetensors file: 8 bytes of length, a JSON header, the arrays' bytes, little-endian.

Format: https://github.com/huggingface/safetensors. Reading checks everything that the format promises.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType

LARGEST_HEADER = 100_000_000
METADATA = "__metadata__"
_TAGS = {"bool": "BOOL", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "int8": "I8", "int16": "I16",
         "int32": "I32", "int64": "I64", "bfloat16": "BF16", "float16": "F16", "float32": "F32", "float64": "F64",
         "complex64": "C64"}  # fmt: skip
_DTYPES = {tag: dtypes.BY_NAME[name] for name, tag in _TAGS.items()}

Arrays = dict[str, tuple[np.ndarray, DType]]
"""(values, dtype) of each array, by name; bfloat16 values are uint16 bit patterns."""


def encoded(arrays: Mapping[str, tuple[np.ndarray, DType]], metadata: Mapping[str, str]) -> bytes:
    """The file's content."""
    return b"".join(pieces(arrays, metadata))


def pieces(arrays: Mapping[str, tuple[np.ndarray, DType]], metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """Yields the file's content in order: the header, then each array; copies at most one array at a time."""
    header: dict[str, Any] = {METADATA: dict(metadata)}
    offset = 0
    # Wider elements first, so that every array starts at a multiple of its item's size.
    ordered = sorted(arrays.items(), key=lambda item: (-item[1][1].itemsize, item[0]))
    for name, (values, dtype) in ordered:
        if dtype.name not in _TAGS:
            raise TrainerError(
                f"safetensors: {name!r} can't be stored",
                found=repr(dtype),
                expected=", ".join(_TAGS),
                hint="Store its real and imaginary parts.",
            )
        end = offset + values.size * dtype.itemsize
        header[name] = {"dtype": _TAGS[dtype.name], "shape": list(values.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, (values, dtype) in ordered:
        yield np.ascontiguousarray(values, dtype.storage).reshape(-1).view(np.uint8).data


def decoded(content: bytes, where: str) -> tuple[Arrays, dict[str, str]]:
    """The arrays and the metadata of a file's content.

    Raises:
        TrainerError: the file violates the format.
    """

    def refused(problem: str, found: object = None, expected: object = None) -> TrainerError:
        return TrainerError(f"not a safetensors file: {problem}", where=where, found=found, expected=expected)

    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(LARGEST_HEADER, len(content) - 8):
        raise refused("the header is cut off", f"{len(content)} bytes", f"a header of {length}")
    header = parsed(content[8 : 8 + length], where)
    if not isinstance(header, dict):
        raise refused("the header is no object")
    data = memoryview(content)[8 + length :]
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise refused("metadata is not text by name")
    arrays: Arrays = {}
    end = 0
    for name, first, last, shape, dtype in sorted(_entries(header, refused), key=lambda entry: entry[1:3]):
        if first != end or last > len(data):
            raise refused(f"array {name!r} does not begin where the one before ends", [first, last], f"from {end} on")
        end = last
        if math.prod(shape) * dtype.itemsize != last - first:
            raise refused(f"array {name!r} has another size than its shape", last - first, f"{dtype}{list(shape)}")
        values = np.frombuffer(data[first:last], np.uint8 if dtype is dtypes.bool_ else dtype.storage)
        if dtype is dtypes.bool_:
            if values.size and values.max() > 1:
                raise refused(f"array {name!r} is not of truth values", int(values.max()), "bytes of 0 and 1")
            values = values.view(np.bool_)
        arrays[name] = values.reshape(shape), dtype
    if end != len(data):
        raise refused("bytes that no array holds", len(data), end)
    return arrays, metadata


def _entries(header: dict[str, Any], refused: Any) -> list[tuple[str, int, int, tuple[int, ...], DType]]:
    entries = []
    for name, entry in header.items():
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise refused(f"entry {name!r}", entry, "dtype, shape and data_offsets")
        offsets, shape, tag = entry["data_offsets"], entry["shape"], entry["dtype"]
        if not (is_counts(offsets) and len(offsets) == 2 and offsets[0] <= offsets[1] and is_counts(shape)):
            raise refused(f"entry {name!r}", entry, "integers of at least 0")
        if not isinstance(tag, str) or tag not in _DTYPES:
            raise refused(f"the element type of {name!r}", tag, ", ".join(_DTYPES))
        entries.append((name, offsets[0], offsets[1], tuple(shape), _DTYPES[tag]))
    return entries


def is_counts(value: Any) -> bool:
    """Whether `value` is a list of integers from 0 to 2^48 - 1."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 48 for item in value)


def parsed(text: bytes | str, where: str) -> Any:
    """Parses a JSON document without repeated names.

    Raises:
        TrainerError: the document is not valid.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name is repeated in one object")
        return found

    try:
        return json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise TrainerError("not valid JSON", where=where, found=str(error)[:200]) from error
