"""Reductions of one block of elements for each kept element, in the order that `program.spec.Reduction` fixes.

The 16 lanes of that order are threads. "row": 16 neighboring threads of a warp take neighboring elements and combine
their partial results with shuffles. "column": each warp is one of the 16 lanes, for 32 neighboring kept elements, and
the partial results are combined through shared memory. Both give the same bits as the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from trainer.engine.graph.dtypes import DType, int64
from trainer.engine.program.spec import Instruction
from trainer.engine.targets.ir.combine import Accumulator, Moments
from trainer.engine.targets.ir.expression import MEMORY, cast
from trainer.engine.targets.ir.operand import Operand
from trainer.engine.targets.ir.writer import vector
from trainer.engine.targets.ptx.kernels.kernel_writer import SHARED, WARP, KernelWriter, compute

LANES = 16
"""Lanes of the reduction order, independent of the number of threads."""

ROW_THREADS = 128
COLUMN_THREADS = LANES * WARP

LOADED_AHEAD = 4
"""Terms that a thread loads before it accumulates them one by one: a load takes as long as many accumulations."""

MERGED_AHEAD = 8
"""Blocks whose moments are loaded before they are merged."""


@dataclass(frozen=True, slots=True)
class ReductionKernel:
    """Reduces blocks of terms for each kept element.

    kept, reduced: ranks of both spaces; the reduced one has at least one axis. outputs: the instruction of each
    output's term, and its dtype in memory. The other fields are those of `ElementwiseKernel`.

    Parameters: the operands, then words: kept extents except the first; number of kept elements; reduced extents except
    the first; number of reduced elements; reduced elements per block; number of blocks; strides of each input along the
    kept and the reduced axes; strides of each output along the kept axes and from block to block.
    """

    operations: tuple[str, ...]
    orientation: Literal["row", "column"]
    kept: int
    reduced: int
    inputs: tuple[Operand, ...]
    body: tuple[Instruction, ...]
    outputs: tuple[tuple[int, DType], ...]
    constant: tuple[bool, ...]
    is_narrow: bool
    flush: bool = False

    @property
    def threads(self) -> int:
        """Threads per block."""
        return ROW_THREADS if self.orientation == "row" else COLUMN_THREADS

    def grid(self, kept: int, blocks: int) -> int:
        """Thread blocks for `kept` kept elements, each with `blocks` blocks of terms."""
        if self.orientation == "row":
            return -(-kept * blocks * LANES // ROW_THREADS)
        return -(-kept // WARP) * blocks

    def render(self, name: str) -> str:
        """The module that exports the kernel."""
        return (_Rows if self.orientation == "row" else _Columns)(self).render(name)


class _Rendering:
    """Writes one kernel. `lane`: the thread's lane in the reduction order."""

    lane: str

    def __init__(self, kernel: ReductionKernel) -> None:
        self.kernel, self.w = kernel, KernelWriter()
        names = ["moments" if name in ("mean", "deviations") else name for name in kernel.operations]
        terms = list(zip(names, (instruction for instruction, _ in kernel.outputs), strict=True))
        distinct = list(dict.fromkeys(terms))  # mean and deviations of one value share an accumulator
        self.terms = [instruction for _, instruction in distinct]
        self.accumulators = [
            (Moments if name == "moments" else Accumulator)(name, kernel.body[instruction].dtype, 1)
            for name, instruction in distinct
        ]
        self.results = [distinct.index(each) for each in terms]

    def render(self, name: str) -> str:
        kernel, w = self.kernel, self.w
        bases = [w.word_parameter() if each.index else w.pointer_parameter() for each in kernel.inputs]
        targets = [w.pointer_parameter() for _ in kernel.outputs]
        kept_extents = [w.word_parameter() for _ in range(kernel.kept - 1)]
        self.count = w.word_parameter()
        self.extents = [w.word_parameter() for _ in range(kernel.reduced - 1)]
        length, block, self.blocks = (w.word_parameter() for _ in range(3))
        kept_steps, self.steps = [], []
        for _ in kernel.inputs:
            kept_steps.append([w.word_parameter() for _ in range(kernel.kept)])
            self.steps.append([w.word_parameter() for _ in range(kernel.reduced)])
        target_steps = [[w.word_parameter() for _ in range(kernel.kept + 1)] for _ in kernel.outputs]
        kept, number, is_mine = self.place()
        places = w.decoded(kept, kept_extents, kernel.is_narrow) if kernel.kept else []
        offsets = [w.offset(places, steps) for steps in kept_steps]
        self.bases = [
            w.value(f"add i64 {base}, {offset}") if each.index else w.place(each.dtype, base, offset)
            for each, base, offset in zip(kernel.inputs, bases, offsets, strict=True)
        ]
        self.start, stop = w.share(number, block, length)
        self.stop = str(stop)
        pivots = self._pivots()
        partials = self._reduced(pivots)
        partials = [self.folded(a, partial) for a, partial in zip(self.accumulators, partials, strict=True)]
        with w.when(is_mine):
            for (_, dtype), target, steps, which, operation in zip(
                kernel.outputs, targets, target_steps, self.results, kernel.operations, strict=True
            ):
                value = self._final(self.accumulators[which], partials[which], pivots[which], operation, dtype)
                offset = w.offset([*places, number], steps)
                w.store(dtype, w.narrowed(dtype, value), w.place(dtype, target, offset))
        return w.kernel(name, kernel.threads, flush=kernel.flush)

    # Overridden by each orientation

    def place(self) -> tuple[str, str, str]:
        """Returns the thread's kept element, its block of terms, and whether it stores; sets `lane`."""
        raise NotImplementedError

    def folded(self, accumulator: Accumulator, partial: list[str]) -> list[str]:
        """Combines the partial results of all lanes, at least in the lane that stores."""
        raise NotImplementedError

    def everywhere(self, kind: str, value: str) -> str:
        """Returns a folded value of a compute type on all lanes."""
        raise NotImplementedError

    # Terms

    def _values(self, term: str) -> list[str]:
        """The values to reduce, at the reduced element `term`."""
        kernel, w, operands = self.kernel, self.w, []
        places = w.decoded(term, self.extents, kernel.is_narrow)
        for number, operand in enumerate(kernel.inputs):
            offset = w.offset(places, self.steps[number])
            if operand.index:
                operands.append(w.single(compute(operand.dtype), w.value(f"add i64 {self.bases[number]}, {offset}")))
                continue
            address = w.place(operand.dtype, self.bases[number], offset)
            raw = w.load(operand.dtype, address, constant=kernel.constant[number])
            operands.append(w.widened(operand.dtype, raw))
        values = w.body(kernel.body, operands)
        return [values[instruction] for instruction in self.terms]

    def _reduced(self, pivots: Sequence[str]) -> list[list[str]]:
        """Reduces the thread's terms, every 16th term of the block, to partial results."""
        w = self.w
        parts = [pair for a in self.accumulators for pair in zip(a.types, a.identity(), strict=True)]
        types, first = [kind for kind, _ in parts], w.add(self.start, self.lane)
        stride = LOADED_AHEAD * LANES
        end = w.subtract(self.stop, stride - LANES)
        with w.loop(str(first), str(end), stride, parts) as loop:
            places = [str(w.add(loop.index, LANES * ahead)) for ahead in range(LOADED_AHEAD)]
            loop.next = loop.carried
            for place, values in zip(places, [self._values(place) for place in places], strict=True):
                loop.next = self._taken(loop.next, values, place, pivots)
        missing = w.maximum(0, w.subtract(end, first))
        rounds, _ = w.divide(w.add(missing, stride - 1), stride)
        first = w.add(first, w.multiply(rounds, stride))
        with w.loop(str(first), self.stop, LANES, list(zip(types, loop.next, strict=True))) as rest:
            rest.next = self._taken(rest.carried, self._values(str(rest.index)), str(rest.index), pivots)
        return self._grouped(rest.next)

    def _taken(self, parts: Sequence[str], values: Sequence[str], place: str, pivots: Sequence[str]) -> list[str]:
        """Accumulates the values at one reduced element into the partial results."""
        w, taken = self.w, list[str]()
        position = w.single("i64", place)
        for a, partial, value, pivot in zip(self.accumulators, self._grouped(parts), values, pivots, strict=True):
            if pivot:
                value = w.value(f"fsub {a.types[0]} {value}, {pivot}")
            taken += a.take(w, partial, value, position if a.tracks_position else "", None)
        return taken

    def _grouped(self, parts: Sequence[str]) -> list[list[str]]:
        rest = iter(parts)
        return [[next(rest) for _ in accumulator.types] for accumulator in self.accumulators]

    def _pivots(self) -> list[str]:
        """The mean of the block's middle elements for accumulators of distances from it, "" for the others."""
        w = self.w
        if not any(isinstance(accumulator, Moments) for accumulator in self.accumulators):
            return [""] * len(self.accumulators)
        length = w.value(f"sub i64 {self.stop}, {self.start}")
        count = str(w.minimum(length, LANES))
        skipped = w.value(f"lshr i64 {w.value(f'sub i64 {length}, {count}')}, 1")
        is_inside = w.value(f"icmp ult i64 {self.lane}, {count}")
        own = w.value(f"select i1 {is_inside}, i64 {self.lane}, i64 0")
        term = w.add(w.add(self.start, skipped), own)
        pivots = []
        for accumulator, value in zip(self.accumulators, self._values(str(term)), strict=True):
            if not isinstance(accumulator, Moments):
                pivots.append("")
                continue
            kind = accumulator.types[0]
            value = w.value(f"select i1 {is_inside}, {kind} {value}, {kind} zeroinitializer")
            total, _ = self.folded(accumulator, [value, "zeroinitializer"])
            mean = w.value(f"fdiv {kind} {total}, {self._float(accumulator, count)}")
            pivots.append(self.everywhere(compute(accumulator.working), mean))
        return pivots

    def _float(self, accumulator: Accumulator, count: str) -> str:
        """Converts an integer to the accumulator's float type."""
        element = compute(accumulator.working)
        return self.w.single(element, self.w.value(f"uitofp i64 {count} to {element}"))

    def _final(self, accumulator: Accumulator, partial: list[str], pivot: str, operation: str, dtype: DType) -> str:
        if isinstance(accumulator, Moments):
            count = self._float(accumulator, self.w.value(f"sub i64 {self.stop}, {self.start}"))
            value = accumulator.result_of(self.w, operation, partial, pivot, count)
        else:
            value = accumulator.final(partial)
        return cast(self.w, value, accumulator.result, dtype, 1)


class _Rows(_Rendering):
    def place(self) -> tuple[str, str, str]:
        w = self.w
        thread = w.thread_number(ROW_THREADS)
        self.lane = w.value(f"and i64 {thread}, {LANES - 1}")
        group = w.value(f"lshr i64 {thread}, {LANES.bit_length() - 1}")
        total = w.value(f"mul i64 {self.count}, {self.blocks}")
        is_inside = w.value(f"icmp ult i64 {group}, {total}")
        last = w.value(f"sub i64 {total}, 1")  # shuffles need all threads of a warp: surplus ones repeat the last
        group = w.value(f"select i1 {is_inside}, i64 {group}, i64 {last}")
        kept, number = (w.unsigned(name, group, self.blocks, self.kernel.is_narrow) for name in ("udiv", "urem"))
        is_first = w.value(f"icmp eq i64 {self.lane}, 0")
        return kept, number, w.value(f"and i1 {is_inside}, {is_first}")

    def folded(self, accumulator: Accumulator, partial: list[str]) -> list[str]:
        w, distance = self.w, LANES // 2
        while distance:
            others = [
                w.exchanged(kind[1:-1].split(" x ")[1], value, distance)
                for kind, value in zip(accumulator.types, partial, strict=True)
            ]
            partial = accumulator.combine(w, partial, others)
            distance //= 2
        return partial

    def everywhere(self, kind: str, value: str) -> str:
        return value  # float sums are the same on all lanes: both orders of two terms give the same bits


class _Columns(_Rendering):
    def place(self) -> tuple[str, str, str]:
        w = self.w
        thread, block = w.special("tid.x"), w.special("ctaid.x")
        self.column = w.value(f"and i64 {thread}, {WARP - 1}")
        self.lane = w.value(f"lshr i64 {thread}, {WARP.bit_length() - 1}")
        part, number = (w.unsigned(name, block, self.blocks, self.kernel.is_narrow) for name in ("udiv", "urem"))
        kept = w.value(f"add i64 {w.value(f'mul i64 {part}, {WARP}')}, {self.column}")
        is_inside = w.value(f"icmp ult i64 {kept}, {self.count}")
        last = w.value(f"sub i64 {self.count}, 1")  # barriers need all threads of a block: surplus ones repeat the last
        kept = w.value(f"select i1 {is_inside}, i64 {kept}, i64 {last}")
        is_first = w.value(f"icmp eq i64 {self.lane}, 0")
        return kept, number, w.value(f"and i1 {is_inside}, {is_first}")

    def _arrays(self, accumulator: Accumulator) -> Iterator[tuple[DType, str]]:
        """Yields the dtype of each value of a partial result, and shared memory for the values of a block's threads."""
        dtypes = (
            [accumulator.working, int64]
            if accumulator.tracks_position
            else [accumulator.working] * len(accumulator.types)
        )
        for number, dtype in enumerate(dtypes):
            memory = MEMORY[dtype.name]
            yield dtype, self.w.shared(f"partials_{number}_{memory}", memory, COLUMN_THREADS)

    def _at(self, dtype: DType, memory: str, lane: str) -> str:
        row = self.w.value(f"mul i64 {lane}, {WARP}")
        return self.w.place(dtype, memory, self.w.value(f"add i64 {row}, {self.column}"), SHARED)

    def folded(self, accumulator: Accumulator, partial: list[str]) -> list[str]:
        w, arrays, distance = self.w, list(self._arrays(accumulator)), LANES // 2

        def loaded(lane: str) -> list[str]:
            return [
                w.widened(dtype, w.load(dtype, self._at(dtype, memory, lane), space=SHARED)) for dtype, memory in arrays
            ]

        def store(values: list[str]) -> None:
            for (dtype, memory), value in zip(arrays, values, strict=True):
                w.store(dtype, w.narrowed(dtype, value), self._at(dtype, memory, self.lane), space=SHARED)

        store(partial)
        while distance:
            w.barrier()
            with self._below(distance):
                other = w.value(f"add i64 {self.lane}, {distance}")
                store(accumulator.combine(w, loaded(self.lane), loaded(other)))
            distance //= 2
        w.barrier()
        result = loaded("0")
        w.barrier()  # the memory is reused
        return result

    @contextmanager
    def _below(self, distance: int) -> Iterator[None]:
        with self.w.when(self.w.value(f"icmp ult i64 {self.lane}, {distance}")):
            yield

    def everywhere(self, kind: str, value: str) -> str:
        return value  # all lanes have read the value of the first lane


@dataclass(frozen=True, slots=True)
class MergeKernel:
    """Merges the means and deviations of blocks, in block order, by Chan's formula (Chan, Golub & LeVeque 1979).

    Parameters: addresses of the blocks' means and deviations ([blocks, kept] each), and of the total mean and
    deviations; then the numbers of kept elements, of all reduced elements, and of reduced elements per block.
    """

    dtype: DType
    flush: bool = False
    threads: int = 128

    def render(self, name: str) -> str:
        """The module that exports the kernel."""
        w, dtype = KernelWriter(), self.dtype
        element = compute(dtype)
        kind = vector(element, 1)
        sources, targets = ([w.pointer_parameter() for _ in range(2)] for _ in range(2))
        kept, length, block = (w.word_parameter() for _ in range(3))
        number = w.thread_number(self.threads)

        def of_block(source: str, which: str) -> str:
            row = w.value(f"mul i64 {which}, {kept}")
            return w.load(dtype, w.place(dtype, source, w.value(f"add i64 {row}, {number}")), constant=True)

        def spread(count: str) -> str:
            return w.single(element, w.value(f"uitofp i64 {count} to {element}"))

        with w.guarded(number, kept):
            padded = w.value(f"add i64 {length}, {w.value(f'sub i64 {block}, 1')}")
            blocks = w.value(f"udiv i64 {padded}, {block}")
            last = w.value(f"sub i64 {blocks}, 1")
            initial = [(kind, of_block(source, "0")) for source in sources]
            with w.loop("1", blocks, MERGED_AHEAD, initial) as loop:
                places = [str(w.add(loop.index, ahead)) for ahead in range(MERGED_AHEAD)]
                loaded = [[of_block(source, str(w.minimum(place, last))) for source in sources] for place in places]
                merged = list(loop.carried)
                for place, (mean, deviations) in zip(places, loaded, strict=True):
                    start, stop = w.share(place, block, length)
                    count = spread(w.value(f"sub i64 {stop}, {start}"))
                    share = w.value(f"fdiv {kind} {count}, {spread(str(stop))}")
                    both = w.value(f"fmul {kind} {spread(str(start))}, {share}")
                    distance = w.value(f"fsub {kind} {mean}, {merged[0]}")
                    moved = w.value(f"fmul {kind} {distance}, {share}")
                    between = w.value(f"fmul {kind} {w.value(f'fmul {kind} {distance}, {distance}')}, {both}")
                    within = w.value(f"fadd {kind} {merged[1]}, {deviations}")
                    found = [
                        w.value(f"fadd {kind} {merged[0]}, {moved}"), w.value(f"fadd {kind} {within}, {between}")
                    ]  # fmt: skip
                    is_block = w.value(f"icmp ult i64 {place}, {blocks}", "c")
                    merged = [
                        w.value(f"select i1 {is_block}, {kind} {new}, {kind} {old}")
                        for new, old in zip(found, merged, strict=True)
                    ]
                loop.next = merged
            for target, value in zip(targets, loop.next, strict=True):
                w.store(dtype, value, w.place(dtype, target, number))
        return w.kernel(name, self.threads, flush=self.flush)
