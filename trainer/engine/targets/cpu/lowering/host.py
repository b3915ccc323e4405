"""Host calls: a kernel of one task that calls Python on the arrays of a program, without flush-to-zero."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from trainer.engine.graph import dtypes, half
from trainer.engine.graph.primitives.host import HostFunction
from trainer.engine.program.work import KernelSource, View, Work
from trainer.engine.targets.cpu import pool
from trainer.engine.targets.cpu.lowering.expansion import Expansion
from trainer.engine.targets.cpu.lowering.launch import Routine
from trainer.engine.targets.cpu.system import floating_point_ir

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64)


def expand_host(expansion: Expansion, work: Work) -> None:
    """Adds a host call. Its argument block holds the address of the C callback, then those of all operands."""
    call: HostFunction = work.spec.attribute("call")
    function = _CALLBACK(_on_arrays(call, work.reads, work.writes))
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    routine = Routine(_CODE, (address, *work.reads, *work.writes), 1, keep=function)
    expansion.add(replace(work, spec=routine, label=f"host {call.name}"))


def _on_arrays(call: HostFunction, reads: tuple[View, ...], writes: tuple[View, ...]) -> Callable[[int], None]:
    """Returns the function that the kernel calls with the address of the operands' part of its argument block."""
    views = (*reads, *writes)

    def run(block: int) -> None:
        try:
            addresses = (ctypes.c_int64 * len(views)).from_address(block)
            arrays = [_array(*pair) for pair in zip(addresses, views, strict=True)]
            values = call.call([_copy(*pair) for pair in zip(arrays, reads, strict=False)])
            for target, value, view in zip(arrays[len(reads) :], values, writes, strict=True):
                target[...] = half.stored(value, view.dtype)
        except BaseException as error:  # no exception may propagate through the kernel
            pool.fail(error)

    return run


def _array(address: int, view: View) -> np.ndarray:
    """An operand as a view of its memory, with its strides."""
    first = np.ctypeslib.as_array((ctypes.c_uint8 * view.dtype.itemsize).from_address(address)).view(view.dtype.storage)
    return np.lib.stride_tricks.as_strided(first, view.shape, [view.dtype.itemsize * step for step in view.strides])


def _copy(array: np.ndarray, view: View) -> np.ndarray:
    return half.from_bits(array) if view.dtype is dtypes.bfloat16 else np.array(array, order="C")


def _render(name: str) -> str:
    return f"""{floating_point_ir()}
define void @{name}(ptr %arguments, i64 %task, ptr %scratch) {{
  %function = load ptr, ptr %arguments
  %operands = getelementptr i64, ptr %arguments, i64 1
  %state = call i64 @flush_off()
  call void %function(ptr %operands)
  call void @flush_restore(i64 %state)
  ret void
}}
"""


_CODE = KernelSource(("host call",), _render)
