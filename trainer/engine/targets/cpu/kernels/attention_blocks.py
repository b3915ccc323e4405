"""Shared parts of the attention kernels: the specification, blocks of products, transposes, and the masking of scores.

Numerics class: keys are in blocks of 64 from the first on. Each score is one chain of fused multiply-adds along the
width, from zero. Each sum over keys or queries within a block is also such a chain; sums of blocks are added in order.
Block sizes and the grid of tasks come from the shape alone, so tiles and threads don't change the bits.

Operands of bfloat16 are multiplied in pairs (`products.py`) of neighbors along the reduction: along the width they are
paired in memory, along the tokens two rows are interleaved first. A pair has the size of a sum's element, so blocks are
transposed and multiplied like those of float32. Weights and gradients of scores are rounded before they are paired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.primitives.attention import GROUP, UNLIMITED
from trainer.engine.program.spec import Epilogue, Instruction
from trainer.engine.targets.cpu.kernels.access import Elements, load_vector, store_vector
from trainer.engine.targets.cpu.kernels.loops import broadcast
from trainer.engine.targets.cpu.kernels.products import Products
from trainer.engine.targets.cpu.kernels.tile import run_tile
from trainer.engine.targets.cpu.kernels.tile_shape import Level, Tile
from trainer.engine.targets.cpu.kernels.transpose import exchanged
from trainer.engine.targets.ir.expression import MEMORY, cast, lanes_of, narrow, widen
from trainer.engine.targets.ir.integers import random_words
from trainer.engine.targets.ir.vectors import Floats, Integers
from trainer.engine.targets.ir.writer import Integer, Writer, vector

BLOCK = GROUP
"""Number of keys, and maximum number of queries, of a block: scores of 16 KB in float32 fit into the nearest cache."""

Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """An attention, or its gradient: extents, and the strides of each operand in elements.

    `strides` are those of query, key and value [B, heads, tokens, width], then those of the kernel's other operands;
    along the width they are 1 for operands read by vectors. `bias` are the strides of the bias, 0 where it is
    broadcast. `tile` is (rows, vectors) of sums that registers hold. `dtype` is that of sums. `products`: how operands
    are multiplied; for pairs, the strides of query, key, value and cotangent count pairs.
    """

    dtype: DType
    batch: int
    heads: int
    groups: int
    rows: int
    keys: int
    width: int
    value_width: int
    strides: tuple[Strides, ...]
    scale: float
    window: tuple[int, int]
    dropout: float
    operands: tuple[str, ...]
    bias: Strides
    tile: tuple[int, int]
    products: Products = "single"

    @property
    def lanes(self) -> int:
        return lanes_of(self.dtype)

    def padded(self, extent: int) -> int:
        """`extent` rounded up to whole vectors."""
        return -(-extent // self.lanes) * self.lanes

    @property
    def pairs(self) -> bool:
        """Whether operands are bfloat16."""
        return self.products != "single"

    def terms(self, extent: int) -> int:
        """Elements along the reduction: numbers, or pairs of them."""
        return -(-extent // 2) if self.pairs else extent

    @property
    def masks(self) -> bool:
        """Whether biases or slopes are added to the scores."""
        return bool({"bias", "slopes"} & {*self.operands})


class Blocks:
    """Writes an attention kernel."""

    def __init__(self, spec: AttentionSpec, words: Sequence[str]) -> None:
        self.spec, self.w = spec, Writer()
        self.memory = Elements(self.w, spec.dtype)
        self.lanes, self.element = spec.lanes, self.memory.element
        self.f = Floats(self.w, self.element, self.lanes)
        self.whole = Integers(self.w, "i32", self.lanes, signed=True)
        self.address = {name: self.w.argument(place) for place, name in enumerate(words)}

    # Addresses

    def at(self, name: str, strides: Sequence[int], *places: Integer) -> str:
        """The address of an element of an operand."""
        w = self.w
        offset: Integer = 0
        for place, stride in zip(places, strides, strict=True):
            offset = w.add(offset, w.multiply(place, stride))
        return self.memory.at(self.address[name], offset)

    def areas(self, *sizes: int) -> list[str]:
        """Parts of the scratch memory with these numbers of elements; "" for 0."""
        found, offset = [], 0
        for size in sizes:
            found.append(self.memory.at("%scratch", offset) if size else "")
            offset += scratch_elements(self.spec, size)
        return found

    def first(self, batch: Integer) -> Integer:
        """Position of the first query."""
        if "first" not in self.spec.operands:
            return 0
        place = self.w.pointer(self.address["first"], batch, "i32")
        return self.w.value(f"sext i32 {self.w.value(f'load i32, ptr {place}')} to i64")

    # Products

    def product(
        self, name: str, a: str, b: str, output: str, *, rows: Integer, row_step: int, steps: Integer, a_step: int,
        b_step: int, columns: int, output_step: int, heights: Iterable[int] = (), accumulate: bool = False,
        factor: float = 1.0, is_positive: bool = False,
    ) -> None:  # fmt: skip
        """output[row, column] = factor · sum over steps of a[row, step] · b[step, column]; columns of output and b are
        contiguous. Steps count `terms`.

        If `rows` is a register, it takes one of the values `heights`. `accumulate`: the sums are added to the output.
        `is_positive`: zeros become positive.
        """
        w, lanes = self.w, self.lanes
        tile_rows, tile_vectors = self.spec.tile
        vectors, totals = -(-columns // lanes), tuple(heights)
        extent: Integer = steps if isinstance(steps, int) else "%steps"
        values = {} if isinstance(steps, int) else {"%steps": steps}
        for start in range(0, vectors, tile_vectors):
            width = min(tile_vectors, vectors - start)
            active = columns - (vectors - 1) * lanes if start + width == vectors else lanes
            with w.loop(0, rows, tile_rows) as strip:
                here = self.memory.at(a, w.multiply(strip.index, row_step))
                there = self.memory.at(output, w.add(w.multiply(strip.index, output_step), start * lanes))
                for height, _ in w.cut(strip.index, rows, tile_rows, totals):
                    tile = Tile(
                        self.spec.dtype, tuple(row * row_step for row in range(height)),
                        tuple(row * output_step for row in range(height)), width, lanes, active,
                        (Level(extent, a_step, b_step),), 2 if isinstance(steps, int) and steps > 1 else 1,
                        b_masked=active < lanes, accumulate=accumulate,
                        epilogue=self._with("add", 0.0) if is_positive else self._with("multiply", factor),
                        products=self.spec.products,
                    )  # fmt: skip
                    places = (here, self.memory.at(b, start * lanes), there)
                    run_tile(w, f"{name}_{height}x{width}_{active}", tile, places, values)

    def _with(self, operation: str, number: float) -> Epilogue:
        """An epilogue that applies `operation` to the sums and a number."""
        if (operation, number) == ("multiply", 1):
            return Epilogue()
        dtype = self.spec.dtype
        body = (Instruction("load", (), dtype, (0,)), Instruction("constant", (), dtype, (number,)))
        return Epilogue(body=(*body, Instruction(operation, (0, 1), dtype)))

    # Pairs

    def terms(self, count: Integer) -> Integer:
        """As `AttentionSpec.terms`, for a count that may be a register."""
        if isinstance(count, int):
            return self.spec.terms(count)
        return self.w.divide(self.w.add(count, 1), 2)[0] if self.spec.pairs else count

    def interleave(self, source: str, target: str, *, tokens: Integer, stride: int, width: int) -> None:
        """target[pair, place] = elements `place` of tokens 2·pair and 2·pair + 1; an odd last token repeats.

        `stride` counts pairs; the places of the target are rounded up to whole vectors.
        """
        w, lanes, half = self.w, self.lanes, MEMORY["bfloat16"]
        with w.loop(0, self.terms(tokens)) as pair:
            first = w.multiply(pair.index, 2)
            second = w.minimum(w.add(first, 1), w.subtract(tokens, 1))
            rows = [self.memory.at(source, w.multiply(token, stride)) for token in (first, second)]
            there = self.memory.at(target, w.multiply(pair.index, self.spec.padded(width)))
            for start in range(0, width, lanes):
                active = min(lanes, width - start)
                values = [
                    widen(w, load_vector(w, dtypes.bfloat16, w.pointer(row, start, half), lanes, active),
                          dtypes.bfloat16, lanes)
                    for row in rows
                ]  # fmt: skip
                self.memory.store(self._paired(*values), there, start)

    def pair_rows(self, matrix: str, *, rows: Integer, columns: int, totals: Iterable[int], rounded: str = "") -> None:
        """Rounds rows of sums and stores rows 2·pair and 2·pair + 1 in row `pair`, as pairs; zeros follow an odd number
        of rows, which is one of `totals`. `rounded` receives the rounded rows unpaired, BLOCK elements each.
        """
        w, lanes, memory = self.w, self.lanes, self.memory
        for total in totals:
            if total % 2:
                with w.when(w.value(f"icmp eq i64 {rows}, {total}")):
                    self.fill(memory.at(matrix, total * columns), columns, self.f.constant(0.0))
        with w.loop(0, self.terms(rows)) as pair:
            for start in range(0, columns, lanes):
                values = []
                for row in (w.multiply(pair.index, 2), w.add(w.multiply(pair.index, 2), 1)):
                    value = memory.load(matrix, w.add(w.multiply(row, columns), start))
                    values.append(cast(w, value, dtypes.float32, dtypes.bfloat16, lanes))
                    if rounded:
                        place = w.add(w.multiply(row, BLOCK), start)
                        there = w.pointer(rounded, place, MEMORY["bfloat16"])
                        store_vector(w, dtypes.bfloat16, narrow(w, values[-1], dtypes.bfloat16, lanes), there, lanes)
                memory.store(self._paired(*values), matrix, w.add(w.multiply(pair.index, columns), start))

    def _paired(self, even: str, odd: str) -> str:
        """Pairs of numbers that are bfloat16 already."""
        low = self.f.integer_operation("lshr", self.f.to_bits(even), self.f.whole(16))
        return self.f.from_bits(self.f.integer_operation("or", self.f.to_bits(odd), low))

    # Transposes

    def transpose_in(self, name: str, source: str, target: str, *, tokens: Integer, stride: int, width: int,
                     pitch: int, factor: float = 1.0, accumulate: bool = False) -> None:  # fmt: skip
        """target[place, token] = factor · source[token, place], `pitch` elements between places.

        Reads `pitch` tokens; those from `tokens` on repeat the last one. `accumulate`: adds to the target.
        """
        w, lanes = self.w, self.lanes
        with w.loop(0, pitch, lanes) as group:
            rows = []
            for lane in range(lanes):
                token = w.minimum(w.add(group.index, lane), w.subtract(tokens, 1))
                rows.append(self.memory.at(source, w.multiply(token, stride)))
            there = self.memory.at(target, group.index)
            for start in range(0, width, lanes):
                active = min(lanes, width - start)
                helper = self._transposer(f"{name}_in_{active}", active, pitch, factor, accumulate)
                places = [self.memory.at(row, start) for row in rows]
                w.run(helper, (*places, self.memory.at(there, start * pitch)))

    def _transposer(self, name: str, active: int, pitch: int, factor: float, accumulate: bool) -> str:
        lanes, kind = self.lanes, self.memory.kind

        def build(inner: Writer) -> None:
            memory, f = Elements(inner, self.spec.dtype), Floats(inner, self.element, lanes)
            rows = [memory.load(f"%row{lane}", 0, active) for lane in range(lanes)]
            if factor != 1:
                rows = [f.multiply(row, f.constant(factor)) for row in rows]
            for place, value in enumerate(exchanged(inner, kind, rows)[:active]):
                value = f.add(memory.load("%target", place * pitch), value) if accumulate else value
                memory.store(value, "%target", place * pitch)

        parameters = [*(("ptr", f"%row{lane}") for lane in range(lanes)), ("ptr", "%target")]
        return self.w.function(name, parameters, build)

    def transpose_out(self, name: str, source: str, target: str, *, tokens: Integer, stride: int, width: int,
                      pitch: int, spare: str, factors: str = "") -> None:  # fmt: skip
        """target[token, place] = source[place, token] · factors[token]; rows past `tokens` go to `spare`.

        The places of the source are rounded up to whole vectors. Without factors, zeros become positive.
        """
        w, lanes = self.w, self.lanes
        with w.loop(0, pitch, lanes) as group:
            rows = []
            for lane in range(lanes):
                token = w.add(group.index, lane)
                place = self.memory.at(target, w.multiply(token, stride))
                if tokens != pitch:
                    holds = w.value(f"icmp slt i64 {token}, {tokens}")
                    place = w.value(f"select i1 {holds}, ptr {place}, ptr {spare}")
                rows.append(place)
            here = self.memory.at(source, group.index)
            share = [self.memory.at(factors, group.index)] if factors else []
            for start in range(0, width, lanes):
                active = min(lanes, width - start)
                helper = self._back_transposer(f"{name}_out_{active}", active, pitch, bool(factors))
                places = [self.memory.at(row, start) for row in rows]
                w.run(helper, (*places, self.memory.at(here, start * pitch), *share))

    def _back_transposer(self, name: str, active: int, pitch: int, scaled: bool) -> str:
        lanes, kind = self.lanes, self.memory.kind

        def build(inner: Writer) -> None:
            memory, f = Elements(inner, self.spec.dtype), Floats(inner, self.element, lanes)
            columns = [memory.load("%source", place * pitch) for place in range(lanes)]
            factor = memory.load("%factors") if scaled else f.constant(0.0)
            columns = [f.operation("fmul" if scaled else "fadd", column, factor) for column in columns]
            for lane, value in enumerate(exchanged(inner, kind, columns)):
                memory.store(value, f"%row{lane}", 0, active)

        parameters = [*(("ptr", f"%row{lane}") for lane in range(lanes)), ("ptr", "%source")]
        parameters += [("ptr", "%factors")] if scaled else []
        return self.w.function(name, parameters, build)

    def fill(self, target: str, count: Integer, value: str) -> None:
        """Stores `value` in `count` elements, in whole vectors."""
        with self.w.loop(0, count, self.lanes) as loop:
            self.memory.store(value, target, loop.index)

    # Masking of scores

    def is_limited(self, side: int) -> bool:
        """Whether the window has an end before (0) or after (1) a query's position."""
        return self.spec.window[side] < UNLIMITED

    def integer_list(self, start: Integer, step: int = 1) -> str:
        """start, start + step, … as i32 lanes."""
        w = self.w
        narrow = str(start) if isinstance(start, int) else w.value(f"trunc i64 {start} to i32")
        steps = "<" + ", ".join(f"i32 {lane * step}" for lane in range(self.lanes)) + ">"
        return self.whole.operation("add", broadcast(w, "i32", narrow, self.lanes), steps)

    def adjusted(self, score: str, distance: str, bias: str, slope: str) -> str:
        """A score with its bias and slope, −inf outside the window; `distance` is i32 lanes."""
        w, f, whole = self.w, self.f, self.whole
        if bias:
            score = f.add(score, bias)
        if slope:
            length = w.intrinsic(f"abs.v{self.lanes}i32", whole.type, (whole.type, distance), ("i1", "false"))
            length = w.value(f"sitofp {whole.type} {length} to {f.type}")
            score = f.fma(f.negate(slope), length, score)
        before, after = self.spec.window
        nothing = f.constant(float("-inf"))
        if self.is_limited(0):
            score = f.select(whole.operation("icmp sgt", distance, whole.constant(before)), nothing, score)
        if self.is_limited(1):
            score = f.select(whole.operation("icmp slt", distance, whole.constant(-after)), nothing, score)
        return score

    def slope(self, head: Integer) -> str:
        """The slope of a head on every lane; "" without slopes."""
        if "slopes" not in self.spec.operands:
            return ""
        return self.scalar(self.memory.at(self.address["slopes"], head))

    def scalar(self, place: str) -> str:
        """An element of memory on every lane."""
        return broadcast(self.w, self.element, self.w.value(f"load {self.element}, ptr {place}"), self.lanes)

    def bias_lanes(self, base: str, stride: int, start: Integer, first: Integer, total: Integer) -> str:
        """Elements first + start, first + start + 1, … of an axis of the bias with `total` elements, then the last one.

        `base` is the address of the element `first`.
        """
        w, spec = self.w, self.spec
        if stride == 0:
            return self.scalar(base)
        last = w.subtract(w.subtract(total, first), 1)
        narrow = str(last) if isinstance(last, int) else w.value(f"trunc i64 {last} to i32")
        limit = broadcast(w, "i32", narrow, self.lanes)
        places = w.apply("smin", self.whole.type, self.integer_list(start), limit)
        wide = vector("i64", self.lanes)
        offsets = w.value(f"mul {wide} {w.value(f'sext {self.whole.type} {places} to {wide}')}, splat (i64 {stride})")
        pointers = w.value(f"getelementptr {self.element}, ptr {base}, {wide} {offsets}")
        mask = vector("i1", self.lanes)
        name = f"masked.gather.v{self.lanes}{'f32' if self.element == 'float' else 'f64'}.v{self.lanes}p0"
        return w.intrinsic(
            name, self.f.type, (f"{vector('ptr', self.lanes)} align {spec.dtype.itemsize}", pointers),
            (mask, "splat (i1 true)"), (self.f.type, "zeroinitializer"),
        )  # fmt: skip

    def kept(self, index: str) -> Iterator[str]:
        """Yields the mask of kept weights for each output word of the generator at i64 lanes `index`."""
        w = self.w
        words = []
        for name in ("key", "counter"):
            for place in range(2):
                pointer = w.pointer(self.address[name], place, "i32")
                words.append(broadcast(w, "i32", w.value(f"load i32, ptr {pointer}"), self.lanes))
        single, narrow = Floats(w, "float", self.lanes), self.whole
        for bits in random_words(w, self.lanes, (words[0], words[1]), index, (words[2], words[3])):
            top = narrow.operation("lshr", bits, narrow.constant(8))
            uniform = w.value(f"uitofp {narrow.type} {top} to {single.type}")
            uniform = single.multiply(uniform, single.constant(2.0**-24))
            yield single.compare("olt", uniform, single.constant(1 - self.spec.dropout))


def scratch_elements(spec: AttentionSpec, size: int) -> int:
    """Elements of an area of the scratch memory, rounded up to whole cache lines."""
    line = 64 // spec.dtype.itemsize
    return -(-size // line) * line


def block_totals(extent: int, block: int) -> tuple[int, ...]:
    """The distinct sizes of the blocks of an axis."""
    return tuple(dict.fromkeys([*([block] if extent >= block else []), *([extent % block] if extent % block else [])]))
