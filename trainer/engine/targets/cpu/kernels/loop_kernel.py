"""The specification of a loop kernel: plain, hashable data that describes the computation, not its code.

A `LoopKernel` is a loop nest over an iteration space of `rank` collapsed dimensions, outermost first. Sizes,
strides and addresses are arguments, not part of the specification, so that one compiled kernel serves every shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainer.engine.program.spec import Instruction, Reduction
from trainer.engine.targets.ir.operand import Operand


@dataclass(frozen=True, slots=True)
class LoopKernel:
    """A fused kernel of element-wise work, with an optional reduction.

    Without `reduction`, `outputs[i]` is (instruction number, operand) stored at every point of the space.
    With it, (instruction number, operand) is the value reduced by `reduction.operations[i]`.
    `streamed`: the stores of outputs bypass the caches. Outputs are contiguous, and each row and task begins at a
    multiple of 64 bytes.
    """

    rank: int
    inputs: tuple[Operand, ...]
    body: tuple[Instruction, ...]
    outputs: tuple[tuple[int, Operand], ...]
    reduction: Reduction | None = None
    streamed: bool = False


# Argument block of a LoopKernel: consecutive int64 words at the address handed to the function.
#   [0 .. I)              addresses of inputs (base value for index operands)
#   [I .. I+O)            addresses of outputs
#   next `rank`           sizes of the iteration space, outermost first
#   next I*rank           strides of each input in elements (operand-major)
#   next O*rank           strides of each output in elements; along the reduced dimension: elements between the partials
#                         of blocks
#   next 1                `chunk`: element-wise: elements or rows per task; reduction: block length (a multiple of 16)
#   next 1                `grain`: reduction: kept parts per task; element-wise kernels ignore it
# Function: `void kernel(ptr arguments, i64 task)`.
#   element-wise, rank 1: task covers elements [task*chunk, (task+1)*chunk) of the one dimension.
#   element-wise, rank>1: task covers rows [task*chunk, (task+1)*chunk) of the flattened outer dimensions (all but the
#   innermost).
#   reduction: blocks = ceil(T/chunk); task = group * blocks + b; the task reduces block b of the kept parts
#     [group*grain, (group+1)*grain). row: kept part = flattened index of the outer dimensions (one row each).
#     column: kept part = outer_flat * ceil(K/64) + column part of 64 elements of the innermost dimension (K elements).
#     Output address of kept element k and block b: output + k's strides + b * (stride given for the reduced dimension).
# A rank-0 space is passed as rank 1 with size 1.


def argument_words(kernel: LoopKernel) -> int:
    """Number of 64-bit words in the argument block of `kernel`."""
    operands = len(kernel.inputs) + len(kernel.outputs)
    return operands + kernel.rank + operands * kernel.rank + 2


def pack_arguments(
    kernel: LoopKernel, addresses: Sequence[Any], sizes: Sequence[int], strides: Sequence[Sequence[int]], chunk: int,
    grain: int = 1,
) -> list[Any]:  # fmt: skip
    """The words of an argument block: `addresses` and `strides` of inputs then outputs, in the kernel's order."""
    words = [*addresses, *sizes, *(step for operand in strides for step in operand), chunk, grain]
    if len(words) != argument_words(kernel):
        raise ValueError(f"argument block has {len(words)} words, the kernel takes {argument_words(kernel)}")
    return words
