"""A convolution that is a matrix product of its pixels, fused with a reduction of its result over pixels.

The task that has just stored a block of pixels computes the mean and deviations that batch norm needs, from its cache.
A separate reduction would read everything from memory again. Both parts are the same kernels as separately, with the
same bits. A task covers one block of the reduction and task_vectors vectors of channels, so the reduction's blocks must
be the convolution's tasks (`is_aligned`).

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: those of the convolution, then the addresses of
the reduction's outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from trainer.engine.targets.cpu.costs import cycles as costs
from trainer.engine.targets.cpu.costs.ranking import best
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, correlation
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel
from trainer.engine.targets.cpu.kernels.reduction_columns import COLUMN_PART, ColumnReduction
from trainer.engine.targets.cpu.kernels.tile import lanes_of
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.template import Argument, Template
from trainer.engine.targets.cpu.templates import convolution
from trainer.engine.targets.cpu.templates.convolution import ConvolutionKernel, ConvolutionParameters
from trainer.engine.targets.ir.writer import Writer, internal, joined


@dataclass(frozen=True, slots=True)
class StatisticsSpec:
    """`reduction` is a "column" reduction over pixels that `convolution` stores; `words` follow its addresses."""

    convolution: ConvolutionSpec
    reduction: LoopKernel
    words: tuple[int, ...]

    @property
    def block(self) -> int:
        """Number of pixels that are reduced together."""
        return self.words[-2]

    @property
    def operands(self) -> int:
        """Number of words in the convolution's argument block."""
        plain = self.convolution
        return 3 + len(plain.epilogue.operands) + len(plain.prologue.operands)


WIDENING = 2
"""Minimum ratio of filters to channels: with a smaller output, tasks as large as blocks read more, and other task sizes
save as much as the pass costs (ResNet-50 at batch 8: 128 to 512 channels 2.19 ms separately and 2.01 fused, 512 to 2048
2.21 and 2.06, but 256 to 64 2.27 and 2.45, 2048 to 512 2.00 and 2.28).
"""


def is_possible(spec: ConvolutionSpec) -> bool:
    """Whether the pixels of all images are one row, which tasks may cut anywhere, and fusing pays."""
    if spec.direction != "forward" or spec.groups != 1 or spec.filters < WIDENING * spec.channels:
        return False
    form = correlation(spec)
    return form.images == 1 and len(form.phases) == 1 and form.rows.output_extent == 1


def part_vectors(spec: StatisticsSpec) -> int:
    """Vectors of channels in one part of the reduction: a task covers all vectors, or a multiple of this number."""
    return COLUMN_PART // lanes_of(spec.convolution.dtype)


class StatisticsKernel(ConvolutionKernel):
    """The convolution's kernel, then the reduction's."""

    def __init__(self, spec: StatisticsSpec, parameters: ConvolutionParameters) -> None:
        super().__init__(spec.convolution, parameters)
        self.statistics = spec

    @property
    def is_aligned(self) -> bool:
        """Whether the tasks of the convolution are those of the reduction."""
        vectors, share = self.form.packing.panels, self.parameters.task_vectors
        whole = share >= vectors or share % part_vectors(self.statistics) == 0
        return self.parameters.task_columns == self.statistics.block and whole

    def render(self, name: str) -> str:
        """The module of the kernel."""
        if not self.is_aligned:
            raise ValueError("the tasks of the convolution are not the blocks of the reduction")
        spec = self.statistics
        texts = [
            internal(super().render("convolve"), "convolve"),
            internal(ColumnReduction(spec.reduction).render("reduce"), "reduce"),
        ]
        w, outputs = Writer(), len(spec.reduction.outputs)
        w.call("void", "convolve", ("ptr", "%arguments"), ("i64", "%task"), ("ptr", "%scratch"))
        grain = -(-self.parameters.task_vectors * self.lanes // COLUMN_PART)
        words = [w.argument(2, "i64"), *(w.argument(spec.operands + number, "i64") for number in range(outputs))]
        words += [*map(str, spec.words[:-1]), str(grain)]
        block = w.value(f"alloca [{len(words)} x i64], align 64")
        for place, word in enumerate(words):
            w.emit(f"store i64 {word}, ptr {w.pointer(block, place, 'i64')}")
        w.call("void", "reduce", ("ptr", block), ("i64", "%task"))
        return joined([*texts, w.module(name, scratch=True)])


BLOCK_TILES = 8
"""Tiles whose pixels a task computes for all vectors before the next pixels: they stay in the first-level cache."""


def candidates(spec: StatisticsSpec, machine: Machine) -> tuple[ConvolutionParameters, ...]:
    """The tiles of the convolution without statistics, with its tasks cut like the reduction's blocks."""
    plain = spec.convolution
    form = correlation(plain)
    vectors, pixels = form.packing.panels, form.columns.output_extent
    part = part_vectors(spec)
    options: list[tuple[float, ConvolutionParameters]] = []
    for place, tile in enumerate(convolution.candidates(plain, machine)):
        share = math.lcm(tile.tile_vectors, part)
        whole = -(-vectors // tile.tile_vectors) * tile.tile_vectors
        for task_vectors in sorted({min(share << doubled, whole) for doubled in range(6)}):
            columns = BLOCK_TILES * tile.tile_columns
            parameters = replace(
                tile, task_columns=spec.block, task_vectors=task_vectors, trim=False, block_columns=columns
            )
            kernel = ConvolutionKernel(plain, parameters)
            task_count = kernel.tasks
            if kernel.scratch_bytes > costs.SCRATCH_LIMIT:  # tiles that copy, with larger tasks than when chosen
                continue
            output = min(spec.block, pixels) * task_vectors * 64
            reads = min(spec.block, pixels) * form.inputs * plain.dtype.itemsize
            far = max(0, output + reads - machine.level2_bytes) / costs.SHARED_BYTES_PER_CYCLE
            total = (
                task_count
                * (far + costs.TASK_OVERHEAD + reads / costs.STREAM_BYTES_PER_CYCLE)
                * costs.balance(task_count, machine)
            )
            cycles = vectors * pixels * form.packing.depth / 2 * (1 + costs.VARIANT_PENALTY * place)
            options.append((total + cycles * costs.balance(task_count, machine), parameters))
    return best(options)


def operands(spec: StatisticsSpec) -> list[Argument]:
    """The arrays in the order of the argument block."""
    blocks = -(-spec.words[0] // spec.block)
    elements = blocks * spec.convolution.filters
    partials = [Argument(operand.dtype, elements, written=True) for _, operand in spec.reduction.outputs]
    return [*convolution.operands(spec.convolution), *partials]


TEMPLATE = Template(StatisticsSpec, ConvolutionParameters, StatisticsKernel, operands, candidates)
