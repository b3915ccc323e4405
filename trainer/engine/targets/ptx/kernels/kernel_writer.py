"""Writes one kernel for a grid of threads: one parameter per operand and number, one value per thread.

The functions that all targets share render bodies element by element, on vectors of one lane, so element-wise results
have the same bits as on the CPU.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Instruction
from trainer.engine.targets.ir.expression import COMPUTE, MEMORY, narrow, render_body, widen
from trainer.engine.targets.ir.writer import Integer, Loop, Typed, Writer, vector

WARP = 32
"""Threads per warp."""

GLOBAL = "ptr addrspace(1)"
SHARED = "ptr addrspace(3)"

_METADATA = """!0 = !{}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}
"""
_ALL_LANES = "-1"
_SHUFFLED_TO = "31"
"""The last-lane operand of `shfl.sync`, for a whole warp."""


class KernelWriter(Writer):
    """Writes a kernel. Functions that it calls are inlined, since a call would spill registers to memory."""

    def __init__(self, parent: KernelWriter | None = None) -> None:
        super().__init__(parent)
        self._parameters: list[str] = []

    # Parameters and positions in the grid.

    def pointer_parameter(self) -> str:
        """Adds a parameter: an address in the GPU's memory, aligned to at least 16 bytes before its offset."""
        return self._parameter(GLOBAL)

    def word_parameter(self) -> str:
        """Adds a parameter: an i64."""
        return self._parameter("i64")

    def _parameter(self, kind: str) -> str:
        name = f"%p{len(self._parameters)}"
        self._parameters.append(f"{kind} {name}")
        return name

    def special(self, name: str) -> str:
        """A special register, such as "tid.x", as i64."""
        found = self.intrinsic(f"nvvm.read.ptx.sreg.{name}", "i32")
        return self.value(f"zext i32 {found} to i64")

    def thread_number(self, threads: int) -> str:
        """The number of the thread in a grid of blocks of `threads` threads, as i64."""
        first = self.value(f"mul nuw nsw i64 {self.special('ctaid.x')}, {threads}")
        return self.value(f"add nuw nsw i64 {first}, {self.special('tid.x')}")

    def unsigned(self, operation: str, left: str, right: str, is_narrow: bool) -> str:
        """udiv or urem of i64; with `is_narrow` both fit into 32 bits, which takes a quarter of the instructions."""
        if not is_narrow:
            return self.value(f"{operation} i64 {left}, {right}")
        cut = [self.value(f"trunc i64 {value} to i32") for value in (left, right)]
        return self.value(f"zext i32 {self.value(f'{operation} i32 {cut[0]}, {cut[1]}')} to i64")

    def decoded(self, number: str, extents: Sequence[str], is_narrow: bool) -> list[str]:
        """Converts a row-major number to an index along each axis; `extents` are those of all axes except the first."""
        places: list[str] = []
        for extent in reversed(extents):
            places.insert(0, self.unsigned("urem", number, extent, is_narrow))
            number = self.unsigned("udiv", number, extent, is_narrow)
        return [number, *places]

    def unraveled(self, number: str, extents: Sequence[int], order: Sequence[int] | None = None) -> list[Integer]:
        """Converts the number of a point to an index along each axis; `extents` are constants.

        `order` (default: all axes as they are) lists axes from the outermost to the innermost, which counts fastest.
        """
        places: list[Integer] = [0] * len(extents)
        is_narrow, rest = math.prod(extents) < 1 << 31, math.prod(extents)
        for axis in reversed(range(len(extents)) if order is None else order):
            rest //= max(1, extents[axis])
            if extents[axis] == 1:
                continue
            places[axis] = number if rest <= 1 else self.unsigned("urem", number, str(extents[axis]), is_narrow)
            number = self.unsigned("udiv", number, str(extents[axis]), is_narrow)
        return places

    def indices(self, number: Integer, groups: Sequence[tuple[int, int]]) -> dict[int, Integer]:
        """Converts a row-major number to an index along each of `groups`, pairs (key, extent)."""
        places = self.unraveled(str(number), [extent for _, extent in groups])
        return {key: place for (key, _), place in zip(groups, places, strict=True)}

    def offset(self, places: Sequence[str], strides: Sequence[str]) -> str:
        """The sum of place * stride."""
        total = "0"
        for place, stride in zip(places, strides, strict=True):
            total = self.value(f"add i64 {total}, {self.value(f'mul i64 {place}, {stride}')}")
        return total

    # Elements.

    def load(self, dtype: DType, pointer: str, *, constant: bool = False, space: str = GLOBAL, lanes: int = 1) -> str:
        """Loads `lanes` neighboring elements as a vector of the memory type. With `constant` no thread of the grid
        writes them, so they may be read through the cache for constant data.
        """
        kind, past = vector(MEMORY[dtype.name], lanes), ", !invariant.load !0" if constant else ""
        return self.value(f"load {kind}, {space} {pointer}, align {lanes * dtype.itemsize}{past}")

    def store(self, dtype: DType, value: str, pointer: str, *, space: str = GLOBAL, lanes: int = 1) -> None:
        kind = vector(MEMORY[dtype.name], lanes)
        self.emit(f"store {kind} {value}, {space} {pointer}, align {lanes * dtype.itemsize}")

    def place(self, dtype: DType, pointer: str, offset: str, space: str = GLOBAL) -> str:
        """The address `offset` elements after `pointer`."""
        return self.value(f"getelementptr {MEMORY[dtype.name]}, {space} {pointer}, i64 {offset}")

    def widened(self, dtype: DType, raw: str) -> str:
        """Converts an element from its memory type to its compute type, both vectors of one lane."""
        return widen(self, raw, dtype, 1)

    def narrowed(self, dtype: DType, value: str) -> str:
        """The inverse of `widened`."""
        return narrow(self, value, dtype, 1)

    def lane(self, kind: str, values: str, count: int, lane: int) -> str:
        """One lane of a vector of `count` elements, as a vector of one."""
        if count == 1:
            return values
        return self.shuffle(vector(kind, count), values, "poison", [lane])

    def joined(self, kind: str, lanes: Sequence[str]) -> str:
        """Joins vectors of one lane into one vector."""
        if len(lanes) == 1:
            return lanes[0]
        total = "poison"
        for number, value in enumerate(lanes):
            element = self.value(f"extractelement {vector(kind, 1)} {value}, i64 0")
            total = self.value(f"insertelement {vector(kind, len(lanes))} {total}, {kind} {element}, i64 {number}")
        return total

    def scalar(self, kind: str, value: str) -> str:
        """The element of a vector of one lane."""
        return self.value(f"extractelement {vector(kind, 1)} {value}, i64 0")

    def single(self, kind: str, value: str) -> str:
        """A vector of one lane."""
        return self.value(f"insertelement {vector(kind, 1)} poison, {kind} {value}, i64 0")

    def body(self, instructions: Sequence[Instruction], operands: Sequence[str]) -> list[str]:
        """The value of each instruction for one element."""
        return render_body(self, instructions, operands, 1)

    def moved(self, pointer: str, nbytes: Integer) -> str:
        """The address in shared memory `nbytes` after `pointer`."""
        return pointer if nbytes == 0 else self.value(f"getelementptr i8, {SHARED} {pointer}, i64 {nbytes}")

    def narrow(self, value: Integer) -> str:
        """An integer as i32."""
        return str(value) if isinstance(value, int) else self.value(f"trunc i64 {value} to i32")

    # Cooperation of threads.

    def barrier(self) -> None:
        """A barrier for all threads of the block."""
        self.intrinsic("nvvm.barrier.cta.sync.aligned.all", "void", ("i32", "0"))

    def warp_barrier(self) -> None:
        """A barrier for all threads of the warp, which makes their writes visible to each other."""
        self.intrinsic("nvvm.bar.warp.sync", "void", ("i32", _ALL_LANES))

    def exchanged(self, kind: str, value: str, distance: int) -> str:
        """The value, a vector of one lane of a compute type, of the lane whose number differs in the bit `distance`."""
        bits = {"float": 32, "double": 64}.get(kind) or int(kind[1:])
        element = self.scalar(kind, value)
        if kind in ("float", "double"):
            element = self.value(f"bitcast {kind} {element} to i{bits}")
        words = max(1, bits // 32)
        if bits < 32:
            element = self.value(f"zext i{bits} {element} to i32")
        total = ""
        for word in range(words):
            part = element
            if words > 1:
                part = self.value(f"trunc i{bits} {self.value(f'lshr i{bits} {element}, {32 * word}')} to i32")
            operands = [("i32", _ALL_LANES), ("i32", part), ("i32", str(distance)), ("i32", _SHUFFLED_TO)]
            moved = self.intrinsic("nvvm.shfl.sync.bfly.i32", "i32", *operands)
            if words == 1:
                total = moved
                continue
            wide = self.value(f"zext i32 {moved} to i{bits}")
            shifted = self.value(f"shl i{bits} {wide}, {32 * word}")
            total = self.value(f"or i{bits} {total}, {shifted}") if total else shifted
        if bits < 32:
            total = self.value(f"trunc i32 {total} to i{bits}")
        if kind in ("float", "double"):
            total = self.value(f"bitcast i{bits} {total} to {kind}")
        return self.single(kind, total)

    def shared(self, name: str, kind: str, count: int) -> str:
        """Declares shared memory for `count` elements of an LLVM type; returns its address in that space."""
        self._definitions[f"shared {name}"] = (
            f"@{name} = internal addrspace(3) global [{count} x {kind}] poison, align 16"
        )
        return f"@{name}"

    def dynamic(self) -> str:
        """Declares dynamic shared memory, whose size the launch sets; returns its address in that space."""
        self._definitions["dynamic"] = "@dynamic = external addrspace(3) global [0 x i8], align 16"
        return "@dynamic"

    def copied(self, nbytes: int, target: str, source: str, length: str = "", *, cached: bool = False) -> None:
        """Starts to copy 4, 8 or 16 bytes to shared memory; bytes after the first `length` (i32) become zeros. With
        `cached` the bytes also stay in the multiprocessor's cache, for further copies.
        """
        way = "cg" if nbytes == 16 and not cached else "ca"
        name = f"nvvm.cp.async.{way}.shared.global.{nbytes}{'.s' if length else ''}"
        self.intrinsic(name, "void", (SHARED, target), (GLOBAL, source), *([("i32", length)] if length else []))

    def commit_copies(self) -> None:
        """Groups the copies that the thread has started since the last group."""
        self.intrinsic("nvvm.cp.async.commit.group", "void")

    def wait_for_copies(self, groups: int) -> None:
        """Waits for all groups of the thread except the last `groups`."""
        self.intrinsic("nvvm.cp.async.wait.group", "void", ("i32", str(groups)))

    @contextmanager
    def changed(self, condition: str, carried: Sequence[Typed]) -> Iterator[Loop]:
        """A block that changes values if `condition` holds; after it `next` holds their final values."""
        before, inside, after = self.block, self.fresh("then"), self.fresh("end")
        self.branch_if(condition, inside, after)
        self.label(inside)
        body = Loop(0, [first for _, first in carried], [])
        yield body
        last = self.block
        self.branch(after)
        self.label(after)
        body.next = [
            self.value(f"phi {kind} [ {first}, %{before} ], [ {changed}, %{last} ]", "x")
            for (kind, first), changed in zip(carried, body.next, strict=True)
        ]

    @contextmanager
    def rolled(self, start: str, stop: str, step: int, carried: Sequence[Typed]) -> Iterator[Loop]:
        """A loop that LLVM does not unroll: several long steps in sequence would need too many registers."""
        with self.loop(start, stop, step, carried) as loop:
            yield loop
        latch = next(n for n in reversed(range(len(self.lines))) if self.lines[n].startswith("  br i1"))
        self.lines[latch] += ", !llvm.loop !1"

    # Differences from a CPU kernel.

    def helper(
        self, name: str, result: str, parameters: Sequence[Typed], build: Callable[[Writer], None],
        attributes: str = "nounwind",
    ) -> str:  # fmt: skip
        return super().helper(name, result, parameters, build, "alwaysinline nounwind")

    def lookup(self, kind: str, table: str, bits: str, index: str) -> str:
        """table[index & 15], read from constant memory."""
        name = f"table_{hashlib.sha256(table.encode()).hexdigest()[:16]}"
        self.constant(name, f"[16 x float] [{table[1:-1]}]")
        total = "poison"
        for lane in range(16):
            number = self.value(f"extractelement {bits} {index}, i64 {lane}")
            place = self.value(f"getelementptr float, ptr @{name}, i32 {self.value(f'and i32 {number}, 15')}")
            element = self.value(f"load float, ptr {place}, !invariant.load !0")
            total = self.value(f"insertelement {kind} {total}, float {element}, i64 {lane}")
        return total

    @contextmanager
    def guarded(self, number: str, total: str) -> Iterator[None]:
        """A block for threads whose number is below `total`."""
        with self.when(self.value(f"icmp ult i64 {number}, {total}", "c")):
            yield

    def kernel(self, name: str, threads: int, *, flush: bool, resident: int = 1) -> str:
        """The finished module. With `flush` arithmetic treats subnormal float32 operands and results as zeros.
        `resident`: blocks for which a multiprocessor must have registers; ptxas may spill registers to ensure it.
        """
        self.emit("ret void")
        attributes = f'nounwind "nvvm.maxntid"="{threads}" "nvvm.minctasm"="{resident}"'
        if flush:
            attributes += ' "denormal-fp-math-f32"="preserve-sign,preserve-sign"'
        text = f"define ptx_kernel void @{name}({', '.join(self._parameters)}) {attributes} {{\n"
        function = text + "\n".join(self.lines) + "\n}"
        parts = [*self._definitions.values(), function, *self._declarations.values(), _METADATA]
        return "\n".join(['target triple = "nvptx64-nvidia-cuda"', *parts])


def compute(dtype: DType) -> str:
    """The LLVM type in which one element is computed."""
    return COMPUTE[dtype.name]
