"""Matrix products: the template around the micro-kernel for batches of a[M, K] @ b[K, N].

Numerics class "exact": every output element is one chain of fused multiply-adds over k ascending, started from zero.
Operands of bfloat16 are summed in float32, by pairs of k (`products.py`), in the class "tiles" by blocks of them
(`tile_registers.py`).

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [a, b, output, epilogue operands…], addresses.
`b` is packed by the kernel of `pack_spec(spec)` where `spec.packed` says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.epilogue import Epilogue
from trainer.engine.targets.cpu.kernels import copies, pack, tile_registers
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.expression import MEMORY
from trainer.engine.targets.cpu.kernels.products import products_of
from trainer.engine.targets.cpu.kernels.quads import Quads
from trainer.engine.targets.cpu.kernels.tile import Level, Tile, cut_columns, lanes_of, odd_lines, run_tile
from trainer.engine.targets.cpu.kernels.writer import Integer, Writer


@dataclass(frozen=True, slots=True)
class MatmulSpec:
    """What is computed: output[..., m, n] = epilogue(sum over k of a[..., m, k] * b[..., k, n]); strides in elements.

    batch: extents of the batch dimensions; a_batch and b_batch: their strides in a and b (0 = shared).
    a_strides and b_strides: (row, column) strides. The output is dense, row-major [*batch, M, N].
    packed: `b` is in panels, one for each matrix that `pack_spec` lists; otherwise its column stride is 1.
    pairs: both operands are bfloat16 and `dtype` is float32. K and the strides of `a` are even, its column stride is 1,
    and `b` is packed.
    tiled: pairs are summed as AMX does, a numerics class of its own.
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
    """How it is computed; any values give the same bits.

    tile_rows x tile_vectors accumulators, `unroll` steps of k at once; one task covers task_rows x task_vectors vectors
    (multiples of the tile's). pack_rows copies a task's rows of `a` into scratch first. `native` multiplies pairs by
    AVX-512-BF16's instruction, quads by AVX-512-VNNI's; `tiles` multiplies quads, and pairs that are `tiled`, by AMX.
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


def tasks(spec: MatmulSpec, parameters: MatmulParameters) -> int:
    """How many tasks the kernel has."""
    rows = -(-spec.rows // parameters.task_rows)
    vectors = -(-_vectors(spec) // parameters.task_vectors)
    return math.prod(spec.batch) * rows * vectors


def scratch_bytes(spec: MatmulSpec, parameters: MatmulParameters) -> int:
    """Scratch memory that a thread needs."""
    if not parameters.pack_rows:
        return 0
    return min(parameters.task_rows, spec.rows) * _scratch_pitch(spec) * spec.dtype.itemsize


def _vectors(spec: MatmulSpec) -> int:
    return -(-spec.columns // lanes_of(spec.dtype))


def _scratch_pitch(spec: MatmulSpec) -> int:
    """Elements between packed rows of `a`."""
    return odd_lines(spec.steps, lanes_of(spec.dtype))


def render(spec: MatmulSpec, parameters: MatmulParameters, name: str) -> str:
    """The module of the kernel."""
    if spec.pairs and (not spec.packed or spec.a_strides[1] != 1 or spec.depth % 2 or spec.a_strides[0] % 2):
        raise ValueError(f"bfloat16 is multiplied in pairs along rows of `a`, `b` packed: {spec}")
    products = products_of(spec.pairs, parameters.native, spec.quads, tile_registers.checked(spec, parameters.tiles))
    w = Writer()
    element, lanes = MEMORY[spec.dtype.name], lanes_of(spec.dtype)
    a, b, output = (w.argument(word) for word in range(3))
    operands = OperandPointers.load(w, spec.epilogue, 3)
    configured = [tile_registers.begin(w)] if parameters.tiles else []

    vectors = _vectors(spec)
    row_tasks, column_tasks = -(-spec.rows // parameters.task_rows), -(-vectors // parameters.task_vectors)
    matrix, row_task, column_task = w.unravel("%task", row_tasks, column_tasks)
    a, b = _matrix_pointers(w, spec, a, b, matrix)
    first_row, last_row = w.share(row_task, parameters.task_rows, spec.rows)
    first_vector, last_vector = w.share(column_task, parameters.task_vectors, vectors)

    row_stride, column_stride = spec.a_strides[0] // spec.unit, spec.a_strides[1]
    if parameters.pack_rows:
        row_stride, column_stride = _scratch_pitch(spec), 1
        a = _copy_rows(w, spec, a, first_row, last_row)
    else:
        a = w.pointer(a, w.multiply(first_row, row_stride), element)
    if spec.packed:
        level, vector_step = Level(spec.steps, column_stride, lanes), spec.steps * lanes
    else:
        level, vector_step = Level(spec.steps, column_stride, spec.b_strides[0]), lanes

    def tile(rows: int, width: int, active: int) -> Tile:
        return Tile(
            spec.dtype,
            tuple(row * row_stride for row in range(rows)),
            tuple(row * spec.columns for row in range(rows)),
            width,
            vector_step,
            active,
            (level,),
            parameters.unroll,
            b_masked=not spec.packed,
            epilogue=spec.epilogue,
            products=products,
        )

    stored = MEMORY[spec.epilogue.output(spec.dtype).name]
    with w.loop(first_vector, last_vector, parameters.tile_vectors) as panel:
        b_here = w.pointer(b, w.multiply(panel.index, vector_step), element)
        column = w.multiply(panel.index, lanes)
        with w.loop(first_row, last_row, parameters.tile_rows) as strip:
            a_here = w.pointer(a, w.multiply(w.subtract(strip.index, first_row), row_stride), element)
            matrix_row = w.add(w.multiply(matrix, spec.rows), strip.index)
            offset = w.add(w.multiply(matrix_row, spec.columns), column)
            pointers = operands.at(w, offset, column)
            result = w.pointer(output, offset, stored)
            for width, active in cut_columns(w, panel.index, spec.columns, lanes, parameters.tile_vectors):
                for rows, _ in w.cut(strip.index, spec.rows, parameters.tile_rows):
                    shape = tile(rows, width, active)
                    places = (a_here, b_here, result, *pointers, *configured)
                    run_tile(w, f"tile_{rows}x{width}_{shape.lanes}", shape, places)
    if configured:
        tile_registers.end(w)
    return w.module(name, scratch=True)


def _matrix_pointers(w: Writer, spec: MatmulSpec, a: str, b: str, matrix: Integer) -> tuple[str, str]:
    """Where matrix number `matrix` of the batch begins in `a` and in `b`."""
    element = MEMORY[spec.dtype.name]
    a_offset: Integer = 0
    b_offset: Integer = 0
    packed_step, rest = pack_spec(spec).matrix_size, matrix
    for extent, a_stride, b_stride in reversed(list(zip(spec.batch, spec.a_batch, spec.b_batch, strict=True))):
        rest, index = w.divide(rest, extent)
        a_offset = w.add(a_offset, w.multiply(index, a_stride // spec.unit))
        if b_stride:
            b_offset = w.add(b_offset, w.multiply(index, packed_step if spec.packed else b_stride))
            packed_step *= extent
    return w.pointer(a, a_offset, element), w.pointer(b, b_offset, element)


def _copy_rows(w: Writer, spec: MatmulSpec, a: str, first_row: Integer, last_row: Integer) -> str:
    """Copy the task's rows of `a` into scratch, `_scratch_pitch` apart."""
    element = MEMORY[spec.dtype.name]
    copy = copies.define_copy(w, spec.dtype)
    with w.loop(first_row, last_row) as row:
        source = w.pointer(a, w.multiply(row.index, spec.a_strides[0] // spec.unit), element)
        place = w.multiply(w.subtract(row.index, first_row), _scratch_pitch(spec))
        target = w.pointer("%scratch", place, element)
        w.run(copy, (target, source), (spec.steps,))
    return "%scratch"
