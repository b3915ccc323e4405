"""The code of a product: a pipeline over the depth, shared by all kinds of products, and the stores of the sums.

Shared memory holds the tiles of a few steps in consecutive stages. While a step is multiplied, the copies of the next
steps are in flight; each step has one barrier. With a single stage, each step is loaded, then multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from trainer.engine.targets.ir.expression import MEMORY
from trainer.engine.targets.ir.writer import Integer
from trainer.engine.targets.ptx.kernels.kernel_writer import KernelWriter, compute
from trainer.engine.targets.ptx.kernels.product import ACCESS_BYTES, Access, Affine, ProductKernel, innermost_of, merged
from trainer.engine.targets.ptx.kernels.product_fill import Fill, TileLayout

MOST_STAGES = 4
MOST_DECLARED = 48 << 10
"""Maximum bytes of shared memory that a kernel may declare; the launch allocates larger amounts."""

MOST_SHARED = 96 << 10
"""Maximum bytes of shared memory per block: all GPUs since Ampere have them, an H100 twice per multiprocessor."""

Run = tuple[Integer, Integer, Sequence[str]]
"""A row and a column of the tile, and the sums that start there along columns and are stored at once."""


class ProductWriter:
    """Writes one kernel."""

    element: str
    """The LLVM type of the sums."""

    def __init__(self, kernel: ProductKernel) -> None:
        self.kernel, self.w, self.tile = kernel, KernelWriter(), kernel.tile
        self.fills = [self.fill(side, self.layout(side)) for side in range(2)]
        sizes = [self._whole(each.layout.size * each.dtype.itemsize) for each in self.fills]
        self.stage = sum(sizes)
        """Bytes per stage."""
        self.stages = max(1, min(MOST_STAGES, MOST_SHARED // self.stage, kernel.steps))
        self.size = max(self.stage * self.stages, self.staging)
        """Bytes of shared memory."""
        self.offsets = [0, sizes[0] // self.fills[0].dtype.itemsize]
        """Elements of a stage before the tile of each side."""

    @property
    def dynamic(self) -> int:
        """Bytes of dynamic shared memory that the launch allocates."""
        return self.size if self.size > MOST_DECLARED else 0

    @staticmethod
    def _whole(size: int) -> int:
        return -(-size // ACCESS_BYTES) * ACCESS_BYTES

    def render(self, name: str) -> str:
        """The module that exports the kernel."""
        kernel, w, tile = self.kernel, self.w, self.tile
        self.addresses = [w.pointer_parameter() for _ in range(3)]
        self.further = [[w.pointer_parameter() for _ in fused.operands] for fused in (kernel.prologue, kernel.epilogue)]
        self.thread = w.special("tid.x")
        *self.batch, part, row_tile, column_tile = w.unraveled(w.special("ctaid.x"), kernel.grid)
        self.first = w.multiply(row_tile, tile.rows), w.multiply(column_tile, tile.columns)
        start, stop = w.share(part, kernel.block, kernel.depth) if kernel.block else (0, kernel.depth)
        dtype = self.fills[0].dtype
        count, kind = self.size // dtype.itemsize, MEMORY[dtype.name]
        self.memory = w.dynamic() if self.dynamic else w.shared(f"tiles_{dtype.name}_{self.size}", kind, count)
        self.begin()
        sums = self.initial
        if kernel.depth:
            for side, fill in enumerate(self.fills):
                operands = self.further[0] if side == 0 else []
                fill.begin(
                    self.thread, self.first[side], self.batch, [self.addresses[side], *operands], self.memory,
                    self.offsets[side],
                )  # fmt: skip
            sums = self._summed(sums, start, stop)
        self._store(part, self.pieces(sums))
        return w.kernel(name, tile.threads, flush=kernel.flush, resident=self.resident)

    # Overridden by each kind of product

    @property
    def initial(self) -> list[str]:
        """The thread's sums before the first term."""
        raise NotImplementedError

    def layout(self, side: int) -> TileLayout:
        """The layout of an operand's tile in shared memory."""
        raise NotImplementedError

    def fill(self, side: int, layout: TileLayout) -> Fill:
        """The loader of an operand's tile."""
        raise NotImplementedError

    def begin(self) -> None:
        """Computes the thread's position in the tile."""
        raise NotImplementedError

    def multiplied(self, sums: Sequence[str], stage: Integer) -> list[str]:
        """Returns the sums after all terms of a step, whose stage begins at byte `stage` of the memory."""
        raise NotImplementedError

    def multiplied_rest(self, sums: Sequence[str], stage: Integer, rest: Integer) -> list[str]:
        """Returns the sums after the first `rest` terms of a step."""
        raise NotImplementedError

    @property
    def resident(self) -> int:
        """Number of blocks for which a multiprocessor must have registers."""
        return 1

    @property
    def staging(self) -> int:
        """Bytes of shared memory in which sums are staged before they are stored."""
        return 0

    def pieces(self, sums: Sequence[str]) -> Iterator[list[Run]]:
        """Yields the runs that the thread stores, in pieces: each is computed after the previous one is stored."""
        raise NotImplementedError

    ends_with_rest = False
    """Whether a partial step ends with its last term; else it is padded with zero terms."""

    # The depth

    def _summed(self, sums: Sequence[str], start: Integer, stop: Integer) -> list[str]:
        w, kernel, tile, ahead = self.w, self.kernel, self.tile, self.stages - 1
        for number in range(ahead):
            self._bring(str(w.add(start, number * tile.depth)), stop, number * self.stage, is_sure=number == 0)
        has_rest = self.ends_with_rest and not kernel.is_whole
        end = stop
        if has_rest:
            length = w.subtract(stop, start)
            whole = (
                length // tile.depth * tile.depth
                if isinstance(length, int)
                else w.value(f"and i64 {length}, {-tile.depth}")
            )
            end = w.add(start, whole)
        carried = [(self.element, each) for each in sums]
        if ahead:
            carried += [("i64", "0"), ("i64", str(ahead * self.stage))]
        stages: Sequence[Integer] = (0, 0)
        with w.rolled(str(start), str(end), tile.depth, carried) as step:
            held, following = step.carried[: len(sums)], list[str]()
            if ahead:
                stages = step.carried[len(sums) :]
                following = [self._following(each) for each in step.carried[len(sums) :]]
            self._arrive(str(step.index), stop, stages[1])
            held = self.multiplied(held, stages[0])
            if not ahead:
                w.barrier()
            step.next = [*held, *following]
        found = list(step.next[: len(sums)])
        if ahead:
            stages = step.next[len(sums) :]
        if has_rest:
            with w.changed(w.value(f"icmp slt i64 {end}, {stop}"), [(self.element, each) for each in found]) as rest:
                self._arrive(str(end), stop, stages[1])
                rest.next = self.multiplied_rest(rest.carried, stages[0], w.subtract(stop, end))
            found = rest.next
        return found

    def _following(self, stage: str) -> str:
        w, last = self.w, (self.stages - 1) * self.stage
        further = w.value(f"add i64 {stage}, {self.stage}")
        return w.value(f"select i1 {w.value(f'icmp eq i64 {stage}, {last}')}, i64 0, i64 {further}")

    def _bring(self, start: str, stop: Integer, stage: Integer, *, is_sure: bool) -> None:
        """Starts to load a step, unless the step begins after the last term."""
        w = self.w
        if is_sure:
            for fill in self.fills:
                fill.write(start, stop, stage)
        else:
            with w.when(w.value(f"icmp slt i64 {start}, {stop}"), "bring"):
                for fill in self.fills:
                    fill.write(start, stop, stage)
        if any(fill.copied_lanes for fill in self.fills):
            w.commit_copies()

    def _arrive(self, index: str, stop: Integer, writing: Integer) -> None:
        """Waits for the step that begins at `index`, and starts to load the step that replaces the previous one."""
        w, ahead = self.w, self.stages - 1
        is_copied = any(fill.copied_lanes for fill in self.fills)
        if not ahead:
            self._bring(index, stop, 0, is_sure=True)
        if is_copied:
            w.wait_for_copies(max(0, ahead - 1))
        w.barrier()
        if ahead:
            self._bring(str(w.add(index, ahead * self.tile.depth)), stop, writing, is_sure=False)

    # Stores of the sums

    def _value(self, affine: Affine, indices: dict[int, Integer]) -> Integer:
        total: Integer = affine.offset
        for number, index in indices.items():
            total = self.w.add(total, self.w.multiply(index, affine.factors[number]))
        return total

    def _store(self, part: Integer, pieces: Iterable[Sequence[Run]]) -> None:
        kernel, w = self.kernel, self.w
        batch = dict(enumerate(self.batch))
        places = [kernel.out.place, *(access.place for access in kernel.epilogue.operands)]
        known: dict[tuple[int, Integer], tuple[dict[int, Integer], str]] = {}

        def line(side: int, place: Integer) -> tuple[dict[int, Integer], str]:
            """Returns the indices of a row or column, and whether it is inside ("" if all are)."""
            if (side, place) not in known:
                number, limit = w.add(self.first[side], place), math.prod(kernel.spaces[1 + side])
                size = (self.tile.rows, self.tile.columns)[side]
                inside = w.value(f"icmp slt i64 {number}, {limit}") if limit % size else ""
                groups = merged(kernel.extents, kernel.indices(1 + side), places)
                known[side, place] = w.indices(number, groups), inside
            return known[side, place]

        shift = w.multiply(part, kernel.block_stride)
        for piece in pieces:
            for row, column, _ in piece:  # before the first branch, so that all branches may use them
                line(0, row), line(1, column)
            for row, column, values in piece:
                (row_indices, row_inside), (column_indices, column_inside) = line(0, row), line(1, column)
                indices = batch | row_indices | column_indices
                checks = [each for each in (row_inside, column_inside) if each]
                if not checks:
                    self._store_run(indices, shift, values)
                    continue
                inside = checks[0] if len(checks) == 1 else w.value(f"and i1 {checks[0]}, {checks[1]}")
                with w.when(inside):
                    self._store_run(indices, shift, values)

    def _store_run(self, indices: dict[int, Integer], shift: Integer, values: Sequence[str]) -> None:
        kernel, w, count = self.kernel, self.w, len(values)
        raw = [self._read(each, address, indices, count)
               for each, address in zip(kernel.epilogue.operands, self.further[1], strict=True)]  # fmt: skip
        dtype, stored = kernel.out.dtype, []
        for lane, total in enumerate(values):
            value = w.single(compute(kernel.dtype), total)
            if kernel.epilogue.body:
                operands = [w.widened(access.dtype, lanes[lane % len(lanes)])
                            for access, lanes in zip(kernel.epilogue.operands, raw, strict=True)]  # fmt: skip
                value = w.body(kernel.epilogue.body, [value, *operands])[-1]
            stored.append(w.narrowed(dtype, value))
        offset = w.add(self._value(kernel.out.place, indices), shift)
        place = w.place(dtype, self.addresses[2], str(offset))
        w.store(dtype, w.joined(MEMORY[dtype.name], stored), place, lanes=count)

    def _read(self, access: Access, address: str, indices: dict[int, Integer], count: int) -> list[str]:
        """Reads an epilogue operand's elements for a run: `count` of them, or one that the whole run shares."""
        w, along = self.w, innermost_of(self.kernel.extents, self.kernel.indices(2))
        count = count if along is not None and access.place.factors[along] else 1
        found = w.load(
            access.dtype, w.place(access.dtype, address, str(self._value(access.place, indices))), lanes=count
        )
        return [w.lane(MEMORY[access.dtype.name], found, count, lane) for lane in range(count)]
