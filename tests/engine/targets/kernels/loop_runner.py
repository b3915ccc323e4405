"""Runs rendered kernels on strided NumPy arrays, for the tests of this folder."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Instruction, Reduction
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.kernels import elementwise
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel, pack_arguments
from trainer.engine.targets.cpu.kernels.reduction_columns import COLUMN_PART
from trainer.engine.targets.cpu.lowering.loops import code_of
from trainer.engine.targets.ir.operand import Operand

NAME = "kernel"


def compiled(ir: str, *, narrow: bool = False) -> Callable[[Sequence[int], Iterable[int]], None]:
    """A module's function: takes the words of its argument block and the tasks to run."""
    library = native.link({NAME: native.compile_object(ir, native.host_target(narrow=narrow))})
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library[NAME])

    def call(words: Sequence[int], tasks: Iterable[int]) -> None:
        assert library.addresses  # keeps the code alive
        block = np.array(words, np.int64)
        for task in tasks:
            function(block.ctypes.data, task)

    return call


def addresses(arrays: Iterable[np.ndarray]) -> list[int]:
    return [array.__array_interface__["data"][0] for array in arrays]


def steps(array: np.ndarray) -> list[int]:
    """Strides in elements."""
    return [stride // array.itemsize for stride in array.strides]


def operand(dtype: DType, array: np.ndarray) -> Operand:
    """How `array` runs along its last dimension."""
    step = steps(array)[-1]
    return Operand(dtype, "contiguous" if step == 1 else "broadcast" if step == 0 else "strided")


def run_elementwise(
    body: Sequence[Instruction],
    inputs: Sequence[tuple[DType, np.ndarray]],
    outputs: Sequence[tuple[int, DType, np.ndarray]],
    *,
    chunk: int | None = None,
    narrow: bool = False,
) -> None:
    """Evaluate `body` on arrays of one shape, which may be any views, in tasks of `chunk` rows (or elements)."""
    shape = outputs[0][2].shape
    kernel = LoopKernel(
        len(shape),
        tuple(operand(dtype, array) for dtype, array in inputs),
        tuple(body),
        tuple((number, operand(dtype, array)) for number, dtype, array in outputs),
    )
    arrays = [*(array for _, array in inputs), *(array for *_, array in outputs)]
    units = shape[0] if len(shape) == 1 else int(np.prod(shape[:-1]))
    chunk = chunk or max(1, units)
    words = pack_arguments(kernel, addresses(arrays), shape, [steps(array) for array in arrays], chunk)
    compiled(elementwise.render(kernel, NAME), narrow=narrow)(words, range(-(-units // chunk)))


def apply(
    operation: str,
    arguments: Sequence[tuple[DType, np.ndarray]],
    result: DType,
    attributes: tuple[object, ...] = (),
    *,
    narrow: bool = False,
) -> np.ndarray:
    """One element-wise operation on flat arrays of memory values."""
    body = [Instruction("load", (), dtype, (number,)) for number, (dtype, _) in enumerate(arguments)]
    body.append(Instruction(operation, tuple(range(len(arguments))), result, attributes))
    output = np.empty(arguments[0][1].shape, result.storage)
    run_elementwise(body, arguments, [(len(arguments), result, output)], narrow=narrow)
    return output


def run_reduction(
    operations: Sequence[str],
    dtype: DType,
    array: np.ndarray,
    axis: int,
    results: Sequence[DType],
    *,
    block: int,
    grain: int = 1,
    narrow: bool = False,
) -> list[np.ndarray]:
    """Reduce `axis` (the last: "row"; the last but one: "column"); each result has shape [blocks, *kept]."""
    row = axis == array.ndim - 1
    assert row or axis == array.ndim - 2
    kept = [*array.shape[:axis], *array.shape[axis + 1 :]]
    blocks = max(1, -(-array.shape[axis] // block))
    outputs = [np.full([blocks, *kept], 111, result.storage) for result in results]
    kernel = LoopKernel(
        array.ndim,
        (operand(dtype, array),),
        (Instruction("load", (), dtype, (0,)),),
        tuple((0, Operand(result, "contiguous")) for result in results),
        Reduction(tuple(operations), "row" if row else "column"),
    )
    strides = [steps(array)]
    for output in outputs:
        own = steps(output)
        strides.append([*own[1 : axis + 1], own[0], *own[axis + 1 :]])
    words = pack_arguments(kernel, addresses([array, *outputs]), array.shape, strides, block, grain)
    parts = int(np.prod(kept[:axis])) * (1 if row else -(-array.shape[-1] // COLUMN_PART))
    tasks = -(-parts // grain) * blocks
    compiled(code_of(kernel).render(NAME), narrow=narrow)(words, reversed(range(tasks)))
    return outputs


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 values as bfloat16 bit patterns, rounded to nearest even (not for NaN)."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """bfloat16 bit patterns as float32 values."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def strides_of(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Element strides of a dense array whose axes lie in memory in `order`, slowest first."""
    result, step = [0] * len(shape), 1
    for axis in reversed(order):
        result[axis] = step
        step *= shape[axis]
    return tuple(result)


def laid_out(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """A copy whose memory has the axes in `order`; indexed as before."""
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order)) if array.ndim else array.copy()
