"""Combines partial results of a reduction; the same code serves lanes, blocks and both orientations.

A partial result is a list of vectors: one of values, and for argmax and argmin also one of their int64 positions.
16-bit floats accumulate in float32 and are rounded when they are stored.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType, float32, int64
from trainer.engine.targets.ir.expression import LANES, combined, compute_type, constant
from trainer.engine.targets.ir.vectors import splat
from trainer.engine.targets.ir.writer import Writer, vector

_PAIRWISE = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
_LAST_POSITION = 2**63 - 1


@dataclass(frozen=True)
class Accumulator:
    """The running value of one output on some lanes: `operation` as in `spec.Reduction`, `dtype` of the elements.

    Only an accumulator of LANES lanes can fold its lanes.
    """

    operation: str
    dtype: DType
    lanes: int = LANES

    def __post_init__(self) -> None:
        if self.operation not in (*_PAIRWISE, "argmax", "argmin"):
            raise ValueError(f"no reduction {self.operation!r}")

    @property
    def tracks_position(self) -> bool:
        return self.operation.startswith("arg")

    @property
    def working(self) -> DType:
        """The dtype in which values accumulate."""
        return float32 if self.dtype.is_half else self.dtype

    @property
    def result(self) -> DType:
        """The dtype of the value that `final` returns."""
        return int64 if self.tracks_position else self.working

    @property
    def types(self) -> list[str]:
        """The LLVM types of a partial result."""
        return [compute_type(self.working, self.lanes), *([vector("i64", self.lanes)] if self.tracks_position else [])]

    def identity(self) -> list[str]:
        """Returns the partial result of no elements."""
        dtype, greatest = self.working, self.operation in ("max", "argmax")
        if self.operation in ("sum", "prod"):
            value: float = 0 if self.operation == "sum" else 1
        elif dtype.is_float:
            value = float("-inf") if greatest else float("inf")
        else:
            bits = 1 if dtype.kind == "bool" else 8 * dtype.itemsize
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "int" else (0, (1 << bits) - 1)
            value = low if greatest else high
        return [constant(dtype, value), *([splat("i64", str(_LAST_POSITION))] if self.tracks_position else [])]

    def combine(self, writer: Writer, a: list[str], b: list[str]) -> list[str]:
        """Combines two partial results; for floats in this order."""
        if not self.tracks_position:
            return [combined(writer, _PAIRWISE[self.operation], self.working, a[0], b[0], self.lanes)]
        return self._chosen(writer, self._better(writer, a, b), b, a)

    def _better(self, writer: Writer, a: list[str], b: list[str]) -> str:
        """Lanes where b's element wins over a's: NaN wins, then the extreme value, then the earlier position."""
        kind, greatest = self.types[0], self.operation == "argmax"
        both, either = (functools.partial(self._logical, writer, name) for name in ("and", "or"))
        earlier = writer.value(f"icmp slt {vector('i64', self.lanes)} {b[1]}, {a[1]}")
        if not self.working.is_float:
            sign = "s" if self.working.kind == "int" else "u"
            beyond = writer.value(f"icmp {sign}{'gt' if greatest else 'lt'} {kind} {b[0]}, {a[0]}")
            same = writer.value(f"icmp eq {kind} {b[0]}, {a[0]}")
            return either(beyond, both(same, earlier))
        beyond = writer.value(f"fcmp {'ogt' if greatest else 'olt'} {kind} {b[0]}, {a[0]}")
        same = writer.value(f"fcmp oeq {kind} {b[0]}, {a[0]}")
        b_is_nan = writer.value(f"fcmp uno {kind} {b[0]}, {b[0]}")
        a_is_number = writer.value(f"fcmp ord {kind} {a[0]}, {a[0]}")
        first_nan = both(b_is_nan, either(a_is_number, earlier))
        return either(either(beyond, both(same, earlier)), first_nan)

    def take(self, writer: Writer, partial: list[str], value: str, positions: str, mask: str | None) -> list[str]:
        """Adds a new element to `partial` on every lane of `mask`; `positions` are int64 lanes, "" if not tracked."""
        both = self.combine(writer, partial, self._taken(writer, value, positions))
        return both if mask is None else self._chosen(writer, mask, both, partial)

    def _taken(self, writer: Writer, value: str, positions: str) -> list[str]:
        """Returns the partial result of one element on every lane."""
        return [value, positions] if self.tracks_position else [value]

    def _chosen(self, writer: Writer, mask: str, new: list[str], old: list[str]) -> list[str]:
        return [
            writer.value(f"select {self._mask} {mask}, {kind} {a}, {kind} {b}")
            for kind, a, b in zip(self.types, new, old, strict=True)
        ]

    def fold_lanes(self, writer: Writer, partial: list[str]) -> list[str]:
        """Combines lanes (l, l+8), (l, l+4), (l, l+2), (l, l+1); lane 0 holds the result."""
        distance = LANES // 2
        while distance:
            lanes = [(lane + distance) % LANES for lane in range(LANES)]
            pairs = zip(self.types, partial, strict=True)
            upper = [writer.shuffle(kind, value, "poison", lanes) for kind, value in pairs]
            partial = self.combine(writer, partial, upper)
            distance //= 2
        return partial

    def fold_list(self, writer: Writer, partials: list[list[str]]) -> list[str]:
        """Combines LANES partial results lane by lane, in the order of `fold_lanes`."""
        distance = LANES // 2
        while distance:
            partials = [self.combine(writer, partials[lane], partials[lane + distance]) for lane in range(distance)]
            distance //= 2
        return partials[0]

    @property
    def _mask(self) -> str:
        return vector("i1", self.lanes)

    def _logical(self, writer: Writer, name: str, a: str, b: str) -> str:
        return writer.value(f"{name} {self._mask} {a}, {b}")

    def final(self, partial: list[str]) -> str:
        """Returns the output's value: the position, or the value itself."""
        return partial[-1]


class Moments(Accumulator):
    """Sums of d and d², where d is an element's distance from a pivot: they give the mean and the deviations.

    The pivot is the mean of the block's middle 16 elements, so little cancels in `deviations`, however far from zero
    the mean is: (mean - pivot)² is at most n/16 of the variance of a block of n, n/256 if one element is an outlier.
    The first 16 elements would often approach that: they are an image's upper edge, which padding makes different.
    """

    def __post_init__(self) -> None:
        if self.dtype.name not in ("float32", "float64"):
            raise ValueError(f"no moments of {self.dtype}")

    @property
    def types(self) -> list[str]:
        """The LLVM types of a partial result: the sums of d and of d²."""
        return [compute_type(self.dtype, self.lanes)] * 2

    def identity(self) -> list[str]:
        """The partial result of no elements."""
        return [constant(self.dtype, 0)] * 2

    def combine(self, writer: Writer, a: list[str], b: list[str]) -> list[str]:
        """Adds the sums of both."""
        return [writer.value(f"fadd {kind} {x}, {y}") for kind, x, y in zip(self.types, a, b, strict=True)]

    def _taken(self, writer: Writer, value: str, positions: str) -> list[str]:
        """Returns the partial result of one distance from the pivot on every lane."""
        return [value, writer.value(f"fmul {self.types[0]} {value}, {value}")]

    def result_of(self, writer: Writer, operation: str, partial: list[str], pivot: str, count: str) -> str:
        """Returns mean = pivot + s1 / n, or deviations = s2 - s1 · (s1 / n), at least 0 despite rounding."""
        kind = self.types[0]
        share = writer.value(f"fdiv {kind} {partial[0]}, {count}")
        if operation == "mean":
            return writer.value(f"fadd {kind} {pivot}, {share}")
        lost = writer.value(f"fmul {kind} {partial[0]}, {share}")
        left = writer.value(f"fsub {kind} {partial[1]}, {lost}")
        below = writer.value(f"fcmp olt {kind} {left}, zeroinitializer")
        return writer.value(f"select {self._mask} {below}, {kind} zeroinitializer, {kind} {left}")
