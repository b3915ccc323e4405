"""Interleaves pairs of bfloat16 images, or the two halves of one, element by element, for the weight gradient
(`products.py`).

The source is dense images; the destination holds a pair of neighbors for each element: [pairs][elements][2].

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [source address, destination address].
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from trainer.engine.graph.dtypes import DType, bfloat16, float32
from trainer.engine.targets.cpu.kernels.access import load_vector
from trainer.engine.targets.cpu.kernels.pack import interleaved
from trainer.engine.targets.ir.writer import Integer, Writer

LANES = 16
TASK_ELEMENTS = 1 << 15
"""Pairs that a task writes: 128 KiB, so that a task costs far more than its dispatch."""


@dataclass(frozen=True, slots=True)
class PairHalf:
    """Where one half of the first pair is read: element e at `offset` + e if first <= e < stop; the others are zero."""

    offset: int
    first: int
    stop: int

    def holds(self, start: int, stop: int) -> bool:
        """Whether all of [start, stop) is read."""
        return self.first <= start and stop <= self.stop


@dataclass(frozen=True, slots=True)
class InterleaveSpec:
    """`pairs` pairs of `elements` elements, sources `step` apart; `is_odd`: the last pair's second half is zero."""

    pairs: int
    elements: int
    step: int
    parts: tuple[PairHalf, PairHalf]
    is_odd: bool = False

    @classmethod
    def of_images(cls, images: int, elements: int) -> InterleaveSpec:
        """Pairs of neighboring images of `elements` elements each."""
        parts = PairHalf(0, 0, elements), PairHalf(elements, 0, elements)
        return cls(-(-images // 2), elements, 2 * elements, parts, images % 2 > 0)

    @classmethod
    def of_halves(cls, row: int, extent: int, rows: int, starts: tuple[int, int]) -> InterleaveSpec:
        """Pairs of two parts of one image with `extent` rows of `row` elements: the `rows` rows from each of `starts`
        on; rows outside the image are zero.
        """

        def part(start: int) -> PairHalf:
            first, stop = (min(max(place, 0), rows) for place in (-start, extent - start))
            return PairHalf(start * row, first * row, stop * row)

        return cls(1, rows * row, 0, (part(starts[0]), part(starts[1])))

    @property
    def size(self) -> int:
        """Number of pairs written, each the size of a float32."""
        return self.pairs * self.elements

    @property
    def dtype(self) -> DType:
        return float32

    @property
    def tasks(self) -> int:
        """Number of tasks; each covers a part of one pair of images."""
        return self.pairs * -(-self.elements // TASK_ELEMENTS)

    def render(self, name: str) -> str:
        """The module of the kernel."""
        w = Writer()
        source, destination = w.argument(0), w.argument(1)
        pair, number = w.divide("%task", -(-self.elements // TASK_ELEMENTS))
        start, stop = w.share(number, TASK_ELEMENTS, self.elements)
        source = w.pointer(source, w.multiply(pair, self.step), "i16")
        target = w.pointer(destination, w.multiply(pair, self.elements), "i32")
        if self.is_odd:
            with w.when(w.value(f"icmp eq i64 {pair}, {self.pairs - 1}", "c")):
                _write(w, source, (self.parts[0], PairHalf(0, 0, 0)), target, start, stop, self.elements)
            with w.when(w.value(f"icmp ne i64 {pair}, {self.pairs - 1}", "c")):
                _write(w, source, self.parts, target, start, stop, self.elements)
        else:
            _write(w, source, self.parts, target, start, stop, self.elements)
        return w.module(name, scratch=True)


def _write(
    w: Writer, source: str, parts: tuple[PairHalf, PairHalf], target: str, start: Integer, stop: Integer, elements: int
) -> None:
    """Writes elements [start, stop) of one pair of `elements`, split into runs for which the same halves are read."""
    places = sorted({0, elements, *(place for part in parts for place in (part.first, part.stop))})
    for begin, end in pairwise(places):
        images = [w.pointer(source, part.offset, "i16") if part.holds(begin, end) else "" for part in parts]
        first, last = w.maximum(start, begin), w.minimum(stop, end)
        count = w.maximum(w.subtract(last, first), 0)
        whole = w.add(first, w.multiply(w.divide(count, LANES)[0], LANES))
        if first != whole:
            with w.loop(first, whole, LANES) as loop:
                low, high = (
                    load_vector(w, bfloat16, w.pointer(image, loop.index, "i16"), LANES) if image else "zeroinitializer"
                    for image in images
                )
                pointer = w.pointer(target, loop.index, "i32")
                w.emit(f"store <16 x float> {interleaved(w, low, high)}, ptr {pointer}, align 4")
        if whole == last:
            continue
        with w.loop(whole, last) as loop:
            for half, image in enumerate(images):
                value = w.value(f"load i16, ptr {w.pointer(image, loop.index, 'i16')}, align 2") if image else "0"
                place = w.pointer(w.pointer(target, loop.index, "i32"), half, "i16")
                w.emit(f"store i16 {value}, ptr {place}, align 2")
