"""Matrix products: the template around the micro-kernel for batches of a[M, K] @ b[K, N].

Numerics class "exact": every output element is one chain of fused multiply-adds over k ascending, started from zero.
Operands of bfloat16 are summed in float32, in pairs along k (`products.py`); in the class "tiles", in blocks of such
pairs (`tile_registers.py`).

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [a, b, output, epilogue operands…], addresses.
If `spec.packed`, `b` is packed by the kernel of `pack_spec(spec)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from trainer.engine.graph.dtypes import DType, bfloat16
from trainer.engine.program.spec import Epilogue
from trainer.engine.targets.cpu.costs import cycles as costs
from trainer.engine.targets.cpu.costs import tile_shapes
from trainer.engine.targets.cpu.costs.ranking import cheapest_tiles, product_tiles, sized
from trainer.engine.targets.cpu.kernels import copies, pack, tile_registers
from trainer.engine.targets.cpu.kernels.access import prefetch
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.products import Quads, products_of
from trainer.engine.targets.cpu.kernels.tile import cut_columns, odd_lines, run_tile
from trainer.engine.targets.cpu.kernels.tile_shape import Level, Tile
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.template import Argument, Template, TemplateKernel, epilogue_arguments, prepared
from trainer.engine.targets.ir.expression import MEMORY, lanes_of
from trainer.engine.targets.ir.writer import Integer, vector


@dataclass(frozen=True, slots=True)
class MatmulSpec:
    """A product: output[..., m, n] = epilogue(sum over k of a[..., m, k] * b[..., k, n]); strides in elements.

    batch: extents of the batch dimensions; a_batch and b_batch: their strides in a and b (0 = shared).
    a_strides and b_strides: (row, column) strides. The output is dense, row-major [*batch, M, N].
    packed: `b` is in panels, one for each matrix that `pack_spec` lists; otherwise its column stride is 1.
    pairs: both operands are bfloat16 and `dtype` is float32. K and the strides of `a` are even, its column stride is 1,
    and `b` is packed.
    tiled: pairs are summed in the order of AMX, a separate numerics class.
    quads: both operands are 8-bit integers in quads along K and `dtype` is int32. K and all strides count quads.
    """

    dtype: DType
    rows: int
    columns: int
    depth: int
    a_strides: tuple[int, int]
    b_strides: tuple[int, int]
    batch: tuple[int, ...] = ()
    a_batch: tuple[int, ...] = ()
    b_batch: tuple[int, ...] = ()
    packed: bool = True
    epilogue: Epilogue = field(default_factory=Epilogue)
    pairs: bool = False
    tiled: bool = False
    quads: Quads = ""

    @property
    def steps(self) -> int:
        """Elements of the accumulator's size along K: numbers, or pairs of them."""
        return self.depth // self.unit

    @property
    def unit(self) -> int:
        """Numbers in one element of the accumulator's size."""
        return 2 if self.pairs else 1


@dataclass(frozen=True, slots=True)
class MatmulParameters:
    """Parameters of the kernel; any values give the same bits.

    A tile has tile_rows x tile_vectors accumulators and takes `unroll` steps of k at once; a task covers task_rows x
    task_vectors vectors (multiples of the tile's). `pack_rows` first copies a task's rows of `a` into scratch; if `a`
    has row stride 1 and another column stride, as [strips of tile_rows][k][tile_rows]. `native` multiplies pairs with
    AVX-512-BF16, quads with AVX-512-VNNI; `tiles` multiplies quads, and pairs that are `tiled`, with AMX.
    """

    tile_rows: int
    tile_vectors: int
    task_rows: int
    task_vectors: int
    unroll: int = 1
    pack_rows: bool = False
    native: bool = False
    tiles: bool = False


def pack_spec(spec: MatmulSpec) -> pack.PackSpec:
    """The kernel that packs `b`; batch dimensions that share one matrix pack it once."""
    batch = tuple((extent, stride) for extent, stride in zip(spec.batch, spec.b_batch, strict=True) if stride)
    row, column = spec.b_strides
    block = pack.Block(0, ((spec.steps, spec.unit * row),))
    return pack.PackSpec(spec.dtype, batch, spec.columns, column, (block,), row if spec.pairs else 0)


class MatmulKernel(TemplateKernel[MatmulSpec, MatmulParameters]):
    """Batches of products, tile by tile."""

    def __init__(self, spec: MatmulSpec, parameters: MatmulParameters) -> None:
        super().__init__(spec, parameters)
        self.vectors = -(-spec.columns // self.lanes)
        self.in_strips = spec.a_strides[0] == 1 != spec.a_strides[1]
        self.pitch = odd_lines(spec.steps, self.lanes)
        """Elements between packed rows of `a`."""

    @property
    def grid(self) -> tuple[int, ...]:
        """Tasks along matrices, rows and columns."""
        rows = -(-self.spec.rows // self.parameters.task_rows)
        return math.prod(self.spec.batch), rows, -(-self.vectors // self.parameters.task_vectors)

    @property
    def scratch_bytes(self) -> int:
        rows = self.parameters.task_rows if self.in_strips else min(self.parameters.task_rows, self.spec.rows)
        return rows * self.pitch * self.dtype.itemsize if self.parameters.pack_rows else 0

    def write(self) -> None:
        spec, parameters, w, memory, lanes = self.spec, self.parameters, self.w, self.memory, self.lanes
        if spec.pairs and (not spec.packed or spec.a_strides[1] != 1 or spec.depth % 2 or spec.a_strides[0] % 2):
            raise ValueError(f"bfloat16 is multiplied in pairs along rows of `a`, `b` packed: {spec}")
        products = products_of(spec, parameters.native, parameters.tiles)
        a, b, output = (w.argument(word) for word in range(3))
        operands = OperandPointers.load(w, spec.epilogue, 3)
        configured = [tile_registers.begin(w)] if parameters.tiles else []
        matrix, row_task, column_task = w.unravel("%task", *self.grid[1:])
        a, b = self.matrix_pointers(a, b, matrix)
        first_row, last_row = w.share(row_task, parameters.task_rows, self.row_count())
        first_vector, last_vector = w.share(column_task, parameters.task_vectors, self.vectors)

        row_stride, column_stride = spec.a_strides[0] // spec.unit, spec.a_strides[1]
        strip_stride = row_stride
        if parameters.pack_rows and self.in_strips:
            self.pack_strips(memory.at(a, first_row), first_row, last_row)
            a, strip_stride, column_stride = "%scratch", self.pitch, parameters.tile_rows
        elif parameters.pack_rows:
            copy = copies.define_copy(w, spec.dtype)
            with w.loop(first_row, last_row) as row:
                source = memory.at(a, w.multiply(row.index, row_stride))
                place = w.multiply(w.subtract(row.index, first_row), self.pitch)
                w.run(copy, (memory.at("%scratch", place), source), (spec.steps,))
            a, row_stride, strip_stride, column_stride = "%scratch", self.pitch, self.pitch, 1
        else:
            a = memory.at(a, w.multiply(first_row, row_stride))
        level = Level(spec.steps, column_stride, lanes if spec.packed else spec.b_strides[0])
        vector_step = spec.steps * lanes if spec.packed else lanes

        in_order = column_stride == 1 and row_stride == spec.steps and not (parameters.pack_rows or parameters.tiles)
        asks_for_rows = in_order and spec.rows >= FEWEST_STRIPS * parameters.tile_rows
        stored = MEMORY[spec.epilogue.output(spec.dtype).name]

        def write_tiles(
            a: str, b: str, level: Level, values: Mapping[str, Integer] | None = None, *, accumulate: bool = False
        ) -> None:
            with w.loop(first_vector, last_vector, parameters.tile_vectors) as panel:
                b_here = memory.at(b, w.multiply(panel.index, vector_step))
                column = w.multiply(panel.index, lanes)
                with w.loop(first_row, last_row, parameters.tile_rows) as strip:
                    a_here = memory.at(a, w.multiply(w.subtract(strip.index, first_row), strip_stride))
                    matrix_row = w.add(w.multiply(matrix, spec.rows), strip.index)
                    offset = w.add(w.multiply(matrix_row, spec.columns), column)
                    pointers = operands.at(w, offset, column)
                    places = (a_here, b_here, w.pointer(output, offset, stored), *pointers, *configured)
                    follow = [memory.at(a_here, parameters.tile_rows * row_stride)] if asks_for_rows else []
                    for width, active in cut_columns(w, panel.index, spec.columns, lanes, parameters.tile_vectors):
                        for height, _ in w.cut(strip.index, spec.rows, parameters.tile_rows):
                            tile = Tile(
                                spec.dtype, tuple(row * row_stride for row in range(height)),
                                tuple(row * spec.columns for row in range(height)), width, vector_step, active,
                                (replace(level, ahead_step=height if asks_for_rows else 0),), parameters.unroll,
                                b_masked=not spec.packed, accumulate=accumulate, epilogue=spec.epilogue,
                                products=products, prefetched=asks_for_rows,
                                right_ahead=0 if spec.packed else RIGHT_AHEAD,
                            )  # fmt: skip
                            run_tile(w, f"tile_{height}x{width}_{active}", tile, (*places, *follow), values)

        self.write_depth(a, b, level, write_tiles)
        if configured:
            tile_registers.end(w)

    def pack_strips(self, a: str, first_row: Integer, last_row: Integer) -> None:
        """Copies the task's rows of `a`, which are neighbors in memory, into scratch."""
        w, memory, height = self.w, self.memory, self.parameters.tile_rows
        with w.loop(0, self.spec.steps) as step, w.loop(first_row, last_row, height) as strip:
            row = w.subtract(strip.index, first_row)
            source = memory.at(a, w.add(w.multiply(step.index, self.spec.a_strides[1]), row))
            target = memory.at("%scratch", w.add(w.multiply(row, self.pitch), w.multiply(step.index, height)))
            prefetch(w, memory.at(source, STEPS_AHEAD * self.spec.a_strides[1]))
            for rows, _ in w.cut(strip.index, self.spec.rows, height):
                kind = vector(memory.element, rows)
                value = w.value(f"load {kind}, ptr {source}, align {self.dtype.itemsize}")
                w.emit(f"store {kind} {value}, ptr {target}, align {self.dtype.itemsize}")

    def row_count(self) -> Integer:
        """The number of rows of `a`."""
        return self.spec.rows

    def write_depth(self, a: str, b: str, level: Level, write_tiles: Callable[..., None]) -> None:
        """Writes the tiles along all of K."""
        write_tiles(a, b, level)

    def matrix_pointers(self, a: str, b: str, matrix: Integer) -> tuple[str, str]:
        """The start of matrix number `matrix` of the batch in `a` and in `b`."""
        spec, w = self.spec, self.w
        a_offset: Integer = 0
        b_offset: Integer = 0
        packed_step, rest = pack_spec(spec).matrix_size, matrix
        for extent, a_stride, b_stride in reversed(list(zip(spec.batch, spec.a_batch, spec.b_batch, strict=True))):
            rest, index = w.divide(rest, extent)
            a_offset = w.add(a_offset, w.multiply(index, a_stride // spec.unit))
            if b_stride:
                b_offset = w.add(b_offset, w.multiply(index, packed_step if spec.packed else b_stride))
                packed_step *= extent
        return self.memory.at(a, a_offset), self.memory.at(b, b_offset)


FEWEST_STRIPS = 4
"""Minimum strips of rows for a tile to prefetch the rows of the next one, a line each step, and the lines that it will
write: hardware prefetchers do not follow that many rows. One core of Zen 4 with 12,544 rows from memory: 384 to 96
columns 10.1 and 8.8 ms, 288 to 96 8.3 and 6.7 ms, 96 to 96 3.1 and 2.5 ms; rows from caches 0 to 2 % less.
"""

RIGHT_AHEAD = 32
"""Number of steps by which a right operand that is read in place, with a stride, is prefetched before its use:
192x3136x768 14.2 and 10.6 ms, 96x2048x384 1.98 and 1.87 ms, 12544x96x384 11.3 and 9.6 ms. 16 steps gain half of it.
"""

STEPS_AHEAD = 8
"""Number of steps by which packing into strips prefetches rows (Zen 3: 1024x1024x256 80 and 86 % of the peak)."""

FAR_BYTES = 16 << 20
"""A larger operand comes from memory rather than from a third-level cache."""


def candidates(spec: MatmulSpec, machine: Machine) -> tuple[MatmulParameters, ...]:
    """Ranks tiles by their cycles, and tasks by how often they read the operands again."""
    native, crowded = costs.instructions(spec, machine)
    vectors, matrices = -(-spec.columns // lanes_of(spec.dtype)), math.prod(spec.batch)
    by_tiles = costs.uses_tile_registers(spec, machine)
    if by_tiles:
        tiles = cheapest_tiles(
            (tile_shapes.cycles([costs.pieces(spec.rows, m)], costs.pieces(vectors, v), spec.steps, 1), (m, v))
            for v in range(1, min(vectors, tile_shapes.MOST_VECTORS) + 1)
            for m in tile_shapes.heights(spec.rows)
        )
    else:
        distance = spec.a_strides[0] // spec.unit * spec.dtype.itemsize if spec.a_strides[1] == 1 else 0
        tiles = product_tiles(spec.rows, vectors, spec.steps, machine, distance=distance, widened=crowded)
    right, unroll = vectors * spec.steps * 64, costs.unrolled(machine)
    in_place, rate, rest = _left_costs(spec)

    def sizes(cycles: float, m: int, v: int) -> Iterator[tuple[MatmulParameters, int, float]]:
        for task_vectors, task_rows in product(costs.steps(v, vectors), costs.steps(m, spec.rows)):
            parameters = MatmulParameters(m, v, task_rows, task_vectors, unroll, native=native, tiles=by_tiles)
            tasks = MatmulKernel(spec, parameters).tasks
            rows = min(task_rows, spec.rows) * spec.steps * spec.dtype.itemsize
            left_reads = tasks * rows * _reads(rows, v * spec.steps * 64, -(-task_vectors // v), machine)
            right_reads = matrices * right * _reads(right, rows, -(-spec.rows // task_rows), machine)
            read = (left_reads + right_reads) / costs.STREAM_BYTES_PER_CYCLE
            if not machine.is_narrow:
                yield parameters, tasks, matrices * cycles + tasks * costs.TASK_OVERHEAD + read
                continue
            others = tasks * costs.TASK_OVERHEAD + right_reads / costs.STREAM_BYTES_PER_CYCLE
            yield parameters, tasks, matrices * cycles * in_place + others + tasks * rows / costs.STREAM_BYTES_PER_CYCLE
            parameters = replace(parameters, pack_rows=True)
            if 1 in spec.a_strides and MatmulKernel(spec, parameters).scratch_bytes <= costs.SCRATCH_LIMIT:
                yield parameters, tasks, matrices * cycles + others + tasks * (rows + 64 * rest) / rate

    def variants(choice: MatmulParameters) -> Iterator[MatmulParameters]:
        if spec.steps > 1 and not choice.tiles:
            yield replace(choice, unroll=2)
        packed = replace(choice, pack_rows=True)
        read_again = choice.task_vectors > choice.tile_vectors and spec.a_strides[1] == 1
        if read_again and MatmulKernel(spec, packed).scratch_bytes <= costs.SCRATCH_LIMIT:
            yield packed

    return sized(tiles, sizes, machine, variants)


def _left_costs(spec: MatmulSpec) -> tuple[float, float, int]:
    """Costs on narrow machines: the factor on the cycles of tiles that read `a` in place, the bytes per cycle at which
    its rows are copied, and the number of lines that a task copies only in part.

    A tile uses few bytes of each step's line if rows are neighbors. Other rows share few sets of the caches if each
    lies on its own page (Zen 3: 2048x256x256 transposed 62 % of the peak and 88 copied, 1024x1024x1024 77 and 92).
    """
    row, column = spec.a_strides
    if column != 1:
        return 1.5, 3.5, spec.steps
    return 1.1 if row // spec.unit * spec.dtype.itemsize >= costs.WAY_BYTES else 1, costs.COPY_BYTES_PER_CYCLE / 2, 0


def _reads(operand: int, others: int, passes: int, machine: Machine) -> float:
    """The cost of `passes` passes over an operand, in reads from the second-level cache; `others` bytes are used
    between them.

    Tasks walk the columns of b before the next rows of a: data that does not stay in that cache is read in each pass.
    """
    if operand + others <= machine.level2_bytes:
        return 1
    return passes if operand <= FAR_BYTES else passes * costs.STREAM_BYTES_PER_CYCLE / costs.SHARED_BYTES_PER_CYCLE


def operands(spec: MatmulSpec) -> list[Argument]:
    """The arrays in the order of the argument block."""

    def span(extents: Sequence[int], strides: Sequence[int]) -> int:
        return 1 + sum((extent - 1) * stride for extent, stride in zip(extents, strides, strict=True))

    a = span((*spec.batch, spec.rows, spec.depth), (*spec.a_batch, *spec.a_strides))
    b = span((*spec.batch, spec.depth, spec.columns), (*spec.b_batch, *spec.b_strides))
    elements = math.prod(spec.batch) * spec.rows * spec.columns
    return [
        Argument(bfloat16 if spec.pairs else spec.dtype, a),
        prepared(spec.dtype, pack_spec(spec).size if spec.packed else b, spec.pairs),
        Argument(spec.epilogue.output(spec.dtype), elements, written=True),
        *epilogue_arguments(spec.epilogue, elements, spec.columns),
    ]


TEMPLATE = Template(MatmulSpec, MatmulParameters, MatmulKernel, operands, candidates)
