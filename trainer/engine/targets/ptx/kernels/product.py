"""Matrix products through shared memory: a block of 256 threads computes a tile of 64x64, each thread 4x4 of it.

Each output element is one chain of fused multiply-adds in the order of the summed axis, as on the CPU in the class
"exact", so both have the same bits. A step loads 16 columns of the first operand and 16 rows of the second into
shared memory, 16-bit floats as float32; the last step ends where the summed axis does, since a term of zeros would
change the sign of a sum of -0.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.ir.expression import MEMORY
from trainer.engine.targets.ptx.kernels.kernel_writer import SHARED, KernelWriter, compute

TILE = 64
DEPTH = 16
PART = 4
THREADS = (TILE // PART) ** 2


@dataclass(frozen=True, slots=True)
class ProductKernel:
    """a[..., M, K] times b[..., K, N], with `batch` leading axes.

    Sums of `dtype` (float32, float64 or an integer) of products of operands of `operand`.

    Parameters: addresses of a, b and the output; then words: M, N, K, tiles along M and N, the batch extents but the
    first, and the strides of a, b and the output along (batch..., rows, columns).
    """

    dtype: DType
    operand: DType
    batch: int
    flush: bool = False

    def render(self, name: str) -> str:
        """The module that exports the kernel."""
        return _Rendering(self).render(name)


class _Rendering:
    """One kernel while it is written."""

    def __init__(self, kernel: ProductKernel) -> None:
        self.kernel, self.w, self.dtype = kernel, KernelWriter(), kernel.dtype
        self.element = compute(kernel.dtype)

    def render(self, name: str) -> str:
        kernel, w = self.kernel, self.w
        a, b, out = (w.pointer_parameter() for _ in range(3))
        self.rows, self.columns, self.depth, row_tiles, column_tiles = (w.word_parameter() for _ in range(5))
        extents = [w.word_parameter() for _ in range(kernel.batch - 1)]
        strides = [[w.word_parameter() for _ in range(kernel.batch + 2)] for _ in range(3)]
        number, thread = w.special("ctaid.x"), w.special("tid.x")
        number, column_tile = (w.unsigned(name, number, column_tiles, True) for name in ("udiv", "urem"))
        number, row_tile = (w.unsigned(name, number, row_tiles, True) for name in ("udiv", "urem"))
        places = w.decoded(number, extents, True) if kernel.batch else []
        dtypes = (kernel.operand, kernel.operand, kernel.dtype)
        bases = [
            w.place(dtype, base, w.offset(places, steps[:-2]))
            for dtype, base, steps in zip(dtypes, (a, b, out), strides, strict=True)
        ]
        first = [w.value(f"mul i64 {tile}, {TILE}") for tile in (row_tile, column_tile)]
        parts = w.value(f"lshr i64 {thread}, 4"), w.value(f"and i64 {thread}, 15")
        memory = MEMORY[self.dtype.name]
        left, right = (w.shared(f"{side}_{memory}", memory, TILE * DEPTH) for side in ("left", "right"))
        initial = [(self.element, "0.0" if self.dtype.is_float else "0")] * (PART * PART)
        with w.loop("0", self.depth, DEPTH, initial) as step:
            start = str(step.index)
            self._fill(left, bases[0], strides[0][-2:], thread, first[0], self.rows, start)
            self._fill(right, bases[1], strides[1][:-3:-1], thread, first[1], self.columns, start)
            w.barrier()
            stop = w.minimum(w.value(f"sub i64 {self.depth}, {start}"), DEPTH)
            with w.loop("0", stop, 1, list(zip([self.element] * len(initial), step.carried, strict=True))) as inner:
                inner.next = self._multiplied(left, right, parts, str(inner.index), inner.carried)
            w.barrier()
            step.next = inner.next
        self._store(bases[2], strides[2][-2:], parts, first, step.next)
        return w.kernel(name, THREADS, flush=kernel.flush)

    def _fill(self, shared: str, base: str, steps: list[str], thread: str, first: str, limit: str, start: str) -> None:
        """Copy a tile, transposed to [summed axis, kept axis]; behind the operand's last row that row stands again.

        `steps` are the strides along the kept axis and the summed one.
        """
        w = self.w
        last = w.value(f"sub i64 {limit}, 1")
        for part in range(TILE * DEPTH // THREADS):
            place = w.value(f"add i64 {thread}, {part * THREADS}")
            kept, summed = w.value(f"and i64 {place}, {TILE - 1}"), w.value(f"lshr i64 {place}, 6")
            row, term = w.minimum(w.value(f"add i64 {first}, {kept}"), last), w.value(f"add i64 {start}, {summed}")
            with w.when(w.value(f"icmp slt i64 {term}, {self.depth}")):
                dtype = self.kernel.operand
                raw = w.load(dtype, w.place(dtype, base, w.offset([str(row), term], steps)), constant=True)
                w.store(self.dtype, w.widened(dtype, raw), self._at(shared, summed, kept), space=SHARED)

    def _at(self, shared: str, summed: str, kept: str) -> str:
        w = self.w
        row = w.value(f"mul i64 {summed}, {TILE}")
        return w.place(self.dtype, shared, w.value(f"add i64 {row}, {kept}"), SHARED)

    def _multiplied(self, left: str, right: str, parts: tuple[str, str], term: str, totals: list[str]) -> list[str]:
        """The thread's sums with one more term."""
        w, operands = self.w, []
        for shared, part in zip((left, right), parts, strict=True):
            address = self._at(shared, term, w.value(f"mul i64 {part}, {PART}"))
            loaded = w.load(self.dtype, address, space=SHARED, lanes=PART)
            kind = f"<{PART} x {self.element}>"
            operands.append([w.value(f"extractelement {kind} {loaded}, i64 {lane}") for lane in range(PART)])
        return [
            self._added(operands[0][row], operands[1][column], totals[PART * row + column])
            for row in range(PART)
            for column in range(PART)
        ]

    def _added(self, left: str, right: str, total: str) -> str:
        if self.dtype.is_float:
            return self.w.apply("fma", self.element, left, right, total)
        return self.w.value(f"add {self.element} {total}, {self.w.value(f'mul {self.element} {left}, {right}')}")

    def _store(self, base: str, steps: list[str], parts: tuple[str, str], first: list[str], totals: list[str]) -> None:
        w = self.w
        starts = [
            w.value(f"add i64 {begin}, {w.value(f'mul i64 {part}, {PART}')}")
            for begin, part in zip(first, parts, strict=True)
        ]
        for row in range(PART):
            for column in range(PART):
                place = [w.value(f"add i64 {starts[0]}, {row}"), w.value(f"add i64 {starts[1]}, {column}")]
                inside = [
                    w.value(f"icmp slt i64 {each}, {limit}")
                    for each, limit in zip(place, (self.rows, self.columns), strict=True)
                ]
                with w.when(w.value(f"and i1 {inside[0]}, {inside[1]}")):
                    value = w.single(self.element, totals[PART * row + column])
                    w.store(self.dtype, value, w.place(self.dtype, base, w.offset(place, steps)))
