"""Pairs of bfloat16 images element by element, as the weight gradient reads them (`products.py`).

The source is `rows` dense images of `elements` numbers; the destination holds a pair of neighbors for each element:
[ceil(rows / 2)][elements][2]. A last image without a partner is paired with zeros.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [source address, destination address].
"""

from __future__ import annotations

from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType, bfloat16, float32
from trainer.engine.targets.cpu.kernels.access import load_vector
from trainer.engine.targets.cpu.kernels.pack import interleaved
from trainer.engine.targets.ir.writer import Integer, Writer

LANES = 16
TASK_ELEMENTS = 1 << 15
"""Pairs that a task writes: 128 KiB, so that a task costs far more than its dispatch."""


@dataclass(frozen=True, slots=True)
class InterleaveSpec:
    """How many images, and how many numbers each has."""

    rows: int
    elements: int

    @property
    def pairs(self) -> int:
        return -(-self.rows // 2)

    @property
    def size(self) -> int:
        """Pairs that are written, each of the size of a float32."""
        return self.pairs * self.elements

    @property
    def dtype(self) -> DType:
        return float32

    @property
    def tasks(self) -> int:
        """Each covers a part of one pair of images."""
        return self.pairs * -(-self.elements // TASK_ELEMENTS)

    def render(self, name: str) -> str:
        """The module of the kernel."""
        w = Writer()
        source, destination = w.argument(0), w.argument(1)
        pair, part = w.divide("%task", -(-self.elements // TASK_ELEMENTS))
        start, stop = w.share(part, TASK_ELEMENTS, self.elements)
        first = w.pointer(source, w.multiply(pair, 2 * self.elements), "i16")
        target = w.pointer(destination, w.multiply(pair, self.elements), "i32")
        whole = w.add(start, w.multiply(w.divide(w.subtract(stop, start), LANES)[0], LANES))
        partner = w.pointer(first, self.elements, "i16")
        if self.rows % 2:
            with w.when(w.value(f"icmp eq i64 {pair}, {self.pairs - 1}", "c")):
                _write(w, first, "", target, start, whole, stop)
            with w.when(w.value(f"icmp ne i64 {pair}, {self.pairs - 1}", "c")):
                _write(w, first, partner, target, start, whole, stop)
        else:
            _write(w, first, partner, target, start, whole, stop)
        return w.module(name, scratch=True)


def _write(w: Writer, first: str, second: str, target: str, start: Integer, whole: Integer, stop: Integer) -> None:
    """Elements [start, stop) of one pair; a `second` that is "" stands for zeros."""
    images = (first, second)
    if whole != 0:
        with w.loop(start, whole, LANES) as loop:
            low, high = (
                load_vector(w, bfloat16, w.pointer(image, loop.index, "i16"), LANES) if image else "zeroinitializer"
                for image in images
            )
            pointer = w.pointer(target, loop.index, "i32")
            w.emit(f"store <16 x float> {interleaved(w, low, high)}, ptr {pointer}, align 4")
    if whole == stop:
        return
    with w.loop(whole, stop) as loop:
        for half, image in enumerate(images):
            value = w.value(f"load i16, ptr {w.pointer(image, loop.index, 'i16')}, align 2") if image else "0"
            place = w.pointer(w.pointer(target, loop.index, "i32"), half, "i16")
            w.emit(f"store i16 {value}, ptr {place}, align 2")
