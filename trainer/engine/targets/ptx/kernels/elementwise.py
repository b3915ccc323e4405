"""Element-wise loops: each thread computes neighbors along the innermost axis, 16 bytes of the widest operand.

Neighboring threads access neighboring memory. Sizes and strides are parameters, so one kernel serves every shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.program.spec import Instruction
from trainer.engine.targets.ir.expression import MEMORY
from trainer.engine.targets.ir.operand import Operand
from trainer.engine.targets.ir.writer import vector
from trainer.engine.targets.ptx.kernels.kernel_writer import KernelWriter, compute

ACCESS_BYTES = 16
"""Bytes of a thread's widest load and store."""


@dataclass(frozen=True, slots=True)
class ElementwiseKernel:
    """A loop nest of `rank` axes without a reduction.

    inputs, outputs: operands; outputs with the instruction that each stores. constant: for each input, whether nothing
    writes it meanwhile. lanes: neighboring elements per thread; more than one only if operands are contiguous or
    broadcast along the innermost axis and all rows begin at a multiple of it. has_rest: rows may end within a thread's
    elements. is_narrow: element numbers fit into 32 bits. flush: subnormal float32 numbers are treated as zeros.

    Parameters: the operands (an address, or the start value of an index operand), then words: the extents of all axes
    except the first and the innermost; threads per row; number of threads; the innermost extent; strides of each
    operand.
    """

    rank: int
    inputs: tuple[Operand, ...]
    body: tuple[Instruction, ...]
    outputs: tuple[tuple[int, Operand], ...]
    constant: tuple[bool, ...]
    lanes: int
    threads: int
    has_rest: bool
    is_narrow: bool
    flush: bool = False

    @property
    def operands(self) -> list[Operand]:
        return [*self.inputs, *(operand for _, operand in self.outputs)]

    def render(self, name: str) -> str:
        """The module that exports the kernel."""
        return _Rendering(self).render(name)


def words(extents: Sequence[int], strides: Sequence[Sequence[int]], lanes: int) -> list[int]:
    """The words that follow the operands."""
    parts = -(-extents[-1] // lanes)
    total = parts
    for extent in extents[:-1]:
        total *= extent
    return [*extents[1:-1], parts, total, extents[-1], *(step for operand in strides for step in operand)]


class _Rendering:
    """Writes one kernel."""

    def __init__(self, kernel: ElementwiseKernel) -> None:
        self.kernel, self.w = kernel, KernelWriter()

    def render(self, name: str) -> str:
        kernel, w = self.kernel, self.w
        bases = [w.word_parameter() if each.index else w.pointer_parameter() for each in kernel.operands]
        extents = [w.word_parameter() for _ in range(kernel.rank - 2)]
        parts, total, self.length = (w.word_parameter() for _ in range(3))
        strides = [[w.word_parameter() for _ in range(kernel.rank)] for _ in kernel.operands]
        number = w.thread_number(kernel.threads)
        with w.guarded(number, total):
            *outer, part = w.decoded(number, [*extents, parts] if kernel.rank > 1 else [], kernel.is_narrow)
            self.first = part if kernel.lanes == 1 else w.value(f"mul nuw nsw i64 {part}, {kernel.lanes}")
            self.bases = [
                self._row(operand, base, w.offset(outer, steps[:-1]))
                for operand, base, steps in zip(kernel.operands, bases, strides, strict=True)
            ]
            self.steps = [steps[-1] for steps in strides]
            self._elements()
        return w.kernel(name, kernel.threads, flush=kernel.flush)

    def _row(self, operand: Operand, base: str, offset: str) -> str:
        """The start of the row: an address, or the value of an index operand."""
        if operand.index:
            return self.w.value(f"add i64 {base}, {offset}")
        return self.w.place(operand.dtype, base, offset)

    def _elements(self) -> None:
        kernel, w = self.kernel, self.w
        loaded = self._loaded()
        results: list[list[str]] = [[] for _ in kernel.outputs]
        for lane in range(kernel.lanes):
            operands = [self._operand(number, loaded, lane) for number in range(len(kernel.inputs))]
            values = w.body(kernel.body, operands)
            for (instruction, operand), lanes in zip(kernel.outputs, results, strict=True):
                lanes.append(w.narrowed(operand.dtype, values[instruction]))
        if not kernel.has_rest:
            return self._store(results)
        full = self._is_full()
        with w.when(full, "whole"):
            self._store(results)
        with w.unless(full):
            for lane in range(kernel.lanes):
                place = w.value(f"add i64 {self.first}, {lane}")
                with w.guarded(place, self.length):
                    self._store([[lanes[lane]] for lanes in results], place)

    def _is_full(self) -> str:
        end = self.w.value(f"add i64 {self.first}, {self.kernel.lanes}")
        return self.w.value(f"icmp ule i64 {end}, {self.length}", "c")

    # Loads

    def _loaded(self) -> dict[int, str]:
        """Loads the operands that are in memory as vectors of the memory type; broadcast operands as one element."""
        kernel, w = self.kernel, self.w
        known = {
            number: w.load(each.dtype, self.bases[number], constant=kernel.constant[number])
            for number, each in enumerate(kernel.inputs)
            if each.inner == "broadcast" and not each.index
        }
        moving = [n for n, each in enumerate(kernel.inputs) if each.inner != "broadcast" and not each.index]
        if not kernel.has_rest or not moving:
            return known | {number: self._whole(number) for number in moving}
        whole, part, after = (w.fresh(name) for name in ("whole", "part", "loaded"))
        w.branch_if(self._is_full(), whole, part)
        w.label(whole)
        first = [self._whole(number) for number in moving]
        w.branch(after)
        w.label(part)
        second = [self._cut(number) for number in moving]
        w.branch(after)
        w.label(after)
        for number, a, b in zip(moving, first, second, strict=True):
            kind = vector(MEMORY[kernel.inputs[number].dtype.name], kernel.lanes)
            known[number] = w.value(f"phi {kind} [ {a}, %{whole} ], [ {b}, %{part} ]")
        return known

    def _at(self, number: int, place: str) -> str:
        """The address of the element at `place` of the row."""
        operand, w = self.kernel.operands[number], self.w
        step = self.steps[number]
        offset = place if operand.inner == "contiguous" else w.value(f"mul i64 {place}, {step}")
        return w.place(operand.dtype, self.bases[number], offset)

    def _whole(self, number: int) -> str:
        kernel = self.kernel
        dtype, constant = kernel.inputs[number].dtype, kernel.constant[number]
        return self.w.load(dtype, self._at(number, self.first), constant=constant, lanes=kernel.lanes)

    def _cut(self, number: int) -> str:
        """Loads the elements up to the row's end, then repeats the last one."""
        kernel, w = self.kernel, self.w
        dtype, last, elements = kernel.inputs[number].dtype, w.value(f"sub i64 {self.length}, 1"), []
        for lane in range(kernel.lanes):
            place = w.minimum(w.value(f"add i64 {self.first}, {lane}"), last)
            elements.append(w.load(dtype, self._at(number, str(place)), constant=kernel.constant[number]))
        return w.joined(MEMORY[dtype.name], elements)

    def _operand(self, number: int, loaded: dict[int, str], lane: int) -> str:
        """One element in the compute type."""
        operand, w = self.kernel.inputs[number], self.w
        if operand.index:
            return self._index_value(number, lane)
        count = 1 if operand.inner == "broadcast" else self.kernel.lanes
        raw = w.lane(MEMORY[operand.dtype.name], loaded[number], count, 0 if count == 1 else lane)
        return w.widened(operand.dtype, raw)

    def _index_value(self, number: int, lane: int) -> str:
        operand, w = self.kernel.inputs[number], self.w
        total = self.bases[number]
        if operand.inner != "broadcast":
            place = w.value(f"add i64 {self.first}, {lane}")
            moved = place if operand.inner == "contiguous" else w.value(f"mul i64 {place}, {self.steps[number]}")
            total = w.value(f"add i64 {total}, {moved}")
        return w.single(compute(operand.dtype), total)

    # Stores

    def _store(self, results: Sequence[Sequence[str]], place: str | None = None) -> None:
        """Stores lanes of the memory type, from `place` on."""
        kernel, w = self.kernel, self.w
        for number, ((_, operand), lanes) in enumerate(zip(kernel.outputs, results, strict=True), len(kernel.inputs)):
            value = w.joined(MEMORY[operand.dtype.name], lanes)
            w.store(operand.dtype, value, self._at(number, place or self.first), lanes=len(lanes))
