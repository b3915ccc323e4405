"""Runs a rendered kernel on NumPy memory, its tasks in any order, so that tests and benchmarks call kernels as the pool does."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence

import numpy as np

from trainer.engine.devices.cpu import native
from trainer.engine.graph.storage import aligned_empty

_loaded: dict[str, native.Library] = {}


def compiled(ir: str, name: str) -> int:
    """The address of the function `name` of the module `ir`."""
    if ir not in _loaded:
        _loaded[ir] = native.link({name: native.compile_object(ir)})
    return _loaded[ir][name]


def aligned(array: np.ndarray) -> np.ndarray:
    """A 64-byte aligned copy in row-major order."""
    copy = aligned_empty(array.size, array.dtype)[: array.size].reshape(array.shape)
    copy[...] = array
    return copy


def run(ir: str, name: str, arrays: Sequence[np.ndarray], tasks: Iterable[int], scratch_bytes: int = 0) -> None:
    """Call every task of a kernel whose arguments are the addresses of `arrays`; scratch begins as NaN and is guarded."""
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(compiled(ir, name))
    words = np.array([array.ctypes.data for array in arrays], np.int64)
    scratch = aligned_empty(scratch_bytes + 64, np.dtype(np.uint8))
    for task in tasks:
        scratch[:] = 0xFF
        function(words.ctypes.data, task, scratch.ctypes.data)
        if not (scratch[scratch_bytes:] == 0xFF).all():
            raise AssertionError(f"task {task} of {name} wrote past its {scratch_bytes} bytes of scratch")
