"""The layout of a batch's parts in a record: one run of bytes per element type, part after part."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 64


@dataclass(frozen=True)
class Form:
    """The parts by (slot, part) with element type and shape, in the order in which they were computed."""

    fields: tuple[tuple[tuple[str, str], str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, parts: Mapping[tuple[str, str], tuple[str, tuple[int, ...]]]) -> Form:
        """The layout for the element type and shape of each part."""
        return cls(tuple((key, dtype, shape) for key, (dtype, shape) in parts.items()))

    def runs(self) -> dict[str, int]:
        """The total size in bytes of the parts of each element type, in the order of a record."""
        sizes: dict[str, int] = {}
        for _, dtype, shape in self.fields:
            sizes[dtype] = sizes.get(dtype, 0) + math.prod(shape) * np.dtype(dtype).itemsize
        return sizes

    def size(self) -> int:
        """The size of a record in bytes."""
        return sum(aligned(size) for size in self.runs().values())

    def parts(self, record: np.ndarray) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
        """The parts of a record, uint8 [size], as views."""
        at: dict[str, int] = {}
        start = 0
        for dtype, size in self.runs().items():
            at[dtype] = start
            start += aligned(size)
        for key, dtype, shape in self.fields:
            end = at[dtype] + math.prod(shape) * np.dtype(dtype).itemsize
            yield key, record[at[dtype] : end].view(dtype).reshape(shape)
            at[dtype] = end


def aligned(size: int) -> int:
    """The size, rounded up for alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT
