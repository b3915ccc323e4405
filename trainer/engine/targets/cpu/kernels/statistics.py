"""A convolution that is a matrix product of its pixels, and a reduction of its result over pixels, as one kernel.

The mean and deviations that batch norm needs of a block of pixels are taken by the task that has just stored them, from
its cache; as a pass of its own the reduction would read everything from memory again. Both parts are the kernels that
they would be alone, and so are their bits. A task covers one block of the reduction and task_vectors vectors of
channels, so the reduction's blocks must be the convolution's tasks (`is_aligned`).

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: those of the convolution, then the addresses of
the reduction's outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels import convolution, reduction
from trainer.engine.targets.cpu.kernels.convolution import ConvolutionParameters
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, correlation
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel
from trainer.engine.targets.cpu.kernels.modules import internal, joined
from trainer.engine.targets.cpu.kernels.tile import lanes_of
from trainer.engine.targets.cpu.kernels.writer import Writer


@dataclass(frozen=True, slots=True)
class StatisticsSpec:
    """`reduction` is a "column" reduction over the pixels of what `convolution` stores; `words` are those of its
    argument block that follow the addresses.
    """

    convolution: ConvolutionSpec
    reduction: LoopKernel
    words: tuple[int, ...]

    @property
    def block(self) -> int:
        """Pixels that are reduced together."""
        return self.words[-2]

    @property
    def operands(self) -> int:
        """Words of the convolution's argument block."""
        plain = self.convolution
        return 3 + len(plain.epilogue.operands) + len(plain.prologue.operands)


WIDENING = 2
"""How many times as many filters as channels it takes: to write less, tasks as large as blocks read more, and other
sizes of tasks save as much as the pass costs (ResNet-50 at batch 8: 128 to 512 channels 2.19 ms apart and 2.01 as one,
512 to 2048 2.21 and 2.06, but 256 to 64 2.27 and 2.45, 2048 to 512 2.00 and 2.28).
"""


def is_possible(spec: ConvolutionSpec) -> bool:
    """Whether the pixels of all images are one row, which tasks may cut anywhere, and it pays."""
    if spec.direction != "forward" or spec.groups != 1 or spec.filters < WIDENING * spec.channels:
        return False
    form = correlation(spec)
    return form.images == 1 and len(form.phases) == 1 and form.rows.output_extent == 1


def part_vectors(spec: StatisticsSpec) -> int:
    """Vectors of channels that the reduction takes together: a task has all, or a multiple of them."""
    return reduction.COLUMN_PART // lanes_of(spec.convolution.dtype)


def is_aligned(spec: StatisticsSpec, parameters: ConvolutionParameters) -> bool:
    """Whether the convolution's tasks are the reduction's."""
    vectors, share = correlation(spec.convolution).packing.panels, parameters.task_vectors
    return parameters.task_columns == spec.block and (share >= vectors or share % part_vectors(spec) == 0)


def tasks(spec: StatisticsSpec, parameters: ConvolutionParameters) -> int:
    """How many tasks the kernel has."""
    return convolution.tasks(spec.convolution, parameters)


def scratch_bytes(spec: StatisticsSpec, parameters: ConvolutionParameters) -> int:
    """Scratch memory that a thread needs."""
    return convolution.scratch_bytes(spec.convolution, parameters)


def render(spec: StatisticsSpec, parameters: ConvolutionParameters, name: str) -> str:
    """The module of the kernel."""
    if not is_aligned(spec, parameters):
        raise ValueError("the tasks of the convolution are not the blocks of the reduction")
    texts = [
        internal(convolution.render(spec.convolution, parameters, "convolve"), "convolve"),
        internal(reduction.render_reduction(spec.reduction, "reduce"), "reduce"),
    ]
    w = Writer()
    w.call("void", "convolve", ("ptr", "%arguments"), ("i64", "%task"), ("ptr", "%scratch"))
    outputs = len(spec.reduction.outputs)
    grain = -(-parameters.task_vectors * lanes_of(spec.convolution.dtype) // reduction.COLUMN_PART)
    words = [w.argument(2, "i64"), *(w.argument(spec.operands + number, "i64") for number in range(outputs))]
    words += [*map(str, spec.words[:-1]), str(grain)]
    block = w.value(f"alloca [{len(words)} x i64], align 64")
    for place, word in enumerate(words):
        w.emit(f"store i64 {word}, ptr {w.pointer(block, place, 'i64')}")
    w.call("void", "reduce", ("ptr", block), ("i64", "%task"))
    return joined([*texts, w.module(name, scratch=True)])
