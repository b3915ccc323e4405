"""Maxima of windows, their gradient, and resampling: each thread computes one element of the result."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType, float32, int32
from trainer.engine.graph.primitives.contraction import Padding, Pair
from trainer.engine.graph.primitives.resampling import Band, Run
from trainer.engine.targets.ir.combine import Accumulator
from trainer.engine.targets.ir.expression import cast, combined, literal
from trainer.engine.targets.ir.writer import Integer, vector
from trainer.engine.targets.ptx.kernels.kernel_writer import KernelWriter, compute
from trainer.engine.targets.ptx.kernels.points import PointKernel, Strides, by_stride, element, loaded


@dataclass(frozen=True)
class WindowGeometry:
    """Windows over images of `spatial` extents; every field lists rows, then columns."""

    spatial: tuple[int, ...]
    window: Pair
    strides: Pair
    padding: Padding
    dilation: Pair


class _ImageKernel(PointKernel):
    """A kernel with one thread per element of y[N, C, H, W]."""

    shape: tuple[int, ...]
    output_strides: Strides

    @property
    def extents(self) -> tuple[int, ...]:
        return self.shape

    @property
    def order(self) -> Sequence[int]:
        return by_stride(self.output_strides)


@dataclass(frozen=True)
class WindowMaxKernel(_ImageKernel):
    """The first maximum of each window, or with `places` its position, h · W + w, as int32. NaN is greater than any
    number. Addresses: x, y.
    """

    dtype: DType
    shape: tuple[int, ...]
    geometry: WindowGeometry
    places: bool
    input_strides: Strides
    output_strides: Strides
    flush: bool

    def point(self, w: KernelWriter, place: Sequence[Integer], addresses: Sequence[str]) -> None:
        image, channel, *outer = place
        best, geometry = Accumulator("argmax", self.dtype, 1), self.geometry
        runs = [self._run(w, axis, index) for axis, index in enumerate(outer)]

        def candidate(row: Integer, column: Integer) -> tuple[str, str]:
            here = [
                w.add(start, w.multiply(step, spacing))
                for step, (start, _, _), spacing in zip((row, column), runs, geometry.dilation, strict=True)
            ]
            address = element(w, self.dtype, addresses[0], [image, channel, *here], self.input_strides)
            flat = w.add(w.multiply(here[0], geometry.spatial[1]), here[1])
            return loaded(w, self.dtype, address, constant=True), w.single("i64", str(flat))

        first = candidate(runs[0][1], runs[1][1])
        with w.loop(runs[0][1], runs[0][2], 1, list(zip(best.types, first, strict=True))) as down:
            with w.loop(runs[1][1], runs[1][2], 1, list(zip(best.types, down.carried, strict=True))) as across:
                value, flat = candidate(down.index, across.index)
                across.next = best.take(w, across.carried, value, flat, None)
            down.next = across.next
        value, flat = down.next
        if self.places:
            result, value = int32, w.value(f"trunc <1 x i64> {flat} to <1 x i32>")
        else:
            result, value = self.dtype, w.narrowed(self.dtype, value)
        w.store(result, value, element(w, result, addresses[1], place, self.output_strides))

    def _run(self, w: KernelWriter, axis: int, index: Integer) -> tuple[Integer, str, str]:
        """Returns the window's start, its first tap inside the image, and the end of its taps inside the image."""
        geometry = self.geometry
        spacing, size = geometry.dilation[axis], geometry.window[axis]
        start = w.subtract(w.multiply(index, geometry.strides[axis]), geometry.padding[axis][0])
        missing = w.maximum(0, w.subtract(0, start))
        first, _ = w.divide(w.add(missing, spacing - 1), spacing)
        room, _ = w.divide(w.subtract(geometry.spatial[axis] - 1 + spacing, start), spacing)
        return start, str(first), str(w.minimum(size, room))


@dataclass(frozen=True)
class WindowGradientKernel(_ImageKernel):
    """Adds each dy at its position, windows in row-major order. Addresses: dy, positions (int32), dx."""

    dtype: DType
    shape: tuple[int, ...]
    windows: tuple[int, ...]
    geometry: WindowGeometry
    input_strides: Strides
    place_strides: Strides
    output_strides: Strides
    flush: bool
    addresses = 3

    def point(self, w: KernelWriter, place: Sequence[Integer], addresses: Sequence[str]) -> None:
        image, channel, *inner = place
        working = float32 if self.dtype.is_half else self.dtype
        kind = vector(compute(working), 1)
        here = w.add(w.multiply(inner[0], self.shape[3]), inner[1])
        rows, columns = (self._run(w, axis, index) for axis, index in enumerate(inner))
        with w.loop(*rows, 1, [(kind, "zeroinitializer")]) as down:
            with w.loop(*columns, 1, [(kind, down.carried[0])]) as across:
                where = [image, channel, down.index, across.index]
                address = element(w, int32, addresses[1], where, self.place_strides)
                chosen = w.scalar("i32", w.load(int32, address, constant=True))
                value = loaded(w, self.dtype, element(w, self.dtype, addresses[0], where, self.input_strides),
                               constant=True)  # fmt: skip
                more = combined(w, "add", working, across.carried[0], value, 1)
                won = w.value(f"icmp eq i64 {w.value(f'sext i32 {chosen} to i64')}, {here}")
                across.next = [w.value(f"select i1 {won}, {kind} {more}, {kind} {across.carried[0]}")]
            down.next = across.next
        total = cast(w, down.next[0], working, self.dtype, 1)
        w.store(self.dtype, w.narrowed(self.dtype, total),
                element(w, self.dtype, addresses[2], place, self.output_strides))  # fmt: skip

    def _run(self, w: KernelWriter, axis: int, index: Integer) -> tuple[str, str]:
        """Returns the windows that may cover a row or column: the first, and the one after the last."""
        geometry = self.geometry
        step, span = geometry.strides[axis], geometry.dilation[axis] * (geometry.window[axis] - 1)
        padded = w.add(index, geometry.padding[axis][0])
        first, _ = w.divide(w.add(w.maximum(0, w.subtract(padded, span)), step - 1), step)
        last, _ = w.divide(padded, step)
        return str(first), str(w.minimum(w.add(last, 1), self.windows[axis]))


@dataclass(frozen=True)
class ResampleKernel(_ImageKernel):
    """Weighted sums of runs of rows and columns, in the CPU's order: the columns of each row from zero, then the rows.

    Addresses: x, y. Runs and weights are constants of the module.
    """

    dtype: DType
    shape: tuple[int, ...]
    rows: Band
    columns: Band
    input_strides: Strides
    output_strides: Strides
    flush: bool

    def point(self, w: KernelWriter, place: Sequence[Integer], addresses: Sequence[str]) -> None:
        image, channel, *outer = place
        working = float32 if self.dtype.is_half else self.dtype
        kind = vector(compute(working), 1)
        tables = [_Runs(w, band[1], working) for band in (self.rows, self.columns)]
        (top, height, down_weights), (left, width, across_weights) = (
            table.of(index) for table, index in zip(tables, outer, strict=True)
        )
        zero = [(kind, "zeroinitializer")]
        with w.loop("0", height, 1, zero) as down:
            with w.loop("0", width, 1, zero) as across:
                where = [image, channel, w.add(top, down.index), w.add(left, across.index)]
                value = loaded(w, self.dtype, element(w, self.dtype, addresses[0], where, self.input_strides),
                               constant=True)  # fmt: skip
                weight = tables[1].weight(across_weights, across.index)
                across.next = [_plus_product(w, kind, across.carried[0], value, weight)]
            weight = tables[0].weight(down_weights, down.index)
            down.next = [_plus_product(w, kind, down.carried[0], across.next[0], weight)]
        total = cast(w, down.next[0], working, self.dtype, 1)
        w.store(self.dtype, w.narrowed(self.dtype, total),
                element(w, self.dtype, addresses[1], place, self.output_strides))  # fmt: skip


def _plus_product(w: KernelWriter, kind: str, total: str, value: str, weight: str) -> str:
    return w.value(f"fadd {kind} {total}, {w.value(f'fmul {kind} {value}, {weight}')}")


class _Runs:
    """The runs of an axis as constants of the module: (start, count, index of the first weight), and the weights."""

    def __init__(self, w: KernelWriter, runs: Sequence[Run], dtype: DType) -> None:
        entries: list[int] = []
        weights: list[float] = []
        known: dict[tuple[float, ...], int] = {}
        for start, own in runs:
            if own not in known:
                known[own] = len(weights)
                weights += own
            entries += [start, len(own), known[own]]
        self.w, self.element = w, compute(dtype)
        texts = ", ".join(f"{self.element} {literal(dtype, weight)}" for weight in weights or [0.0])
        content = f"[{max(1, len(weights))} x {self.element}] [{texts}]"
        digest = hashlib.sha256(f"{entries} {content}".encode()).hexdigest()
        key = digest[:16]  # a module of several kernels has one copy
        self.entries = w.table(f"runs_{key}", entries)
        self.weights = w.constant(f"weights_{key}", content)

    def of(self, index: Integer) -> tuple[str, str, str]:
        """Returns the start, the count and the index of the first weight of a run."""
        first = self.w.multiply(index, 3)
        start, count, weights = (self._entry(self.w.add(first, number)) for number in range(3))
        return start, count, weights

    def _entry(self, number: Integer) -> str:
        place = self.w.value(f"getelementptr i64, ptr {self.entries}, i64 {number}")
        return self.w.value(f"load i64, ptr {place}, !invariant.load !0")

    def weight(self, first: str, number: Integer) -> str:
        """A weight of a run, as a vector of one lane."""
        place = self.w.value(f"getelementptr {self.element}, ptr {self.weights}, i64 {self.w.add(first, number)}")
        return self.w.single(self.element, self.w.value(f"load {self.element}, ptr {place}, !invariant.load !0"))
