"""Runs a rendered kernel on NumPy memory, its tasks in any order, as the threads of the pool would."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest

from trainer.engine.graph.storage import aligned_empty
from trainer.engine.targets.cpu import native


class KernelRunner:
    """Compiles modules and calls their tasks; scratch begins as NaN and is guarded behind its end."""

    target: native.Target | None = None
    """Compile for another machine than the host: one with narrower vectors."""

    rewrite: Callable[[str], str] | None = None
    """What is done to the text of each module before it is compiled: instructions that the host lacks, emulated."""

    def aligned(self, array: np.ndarray) -> np.ndarray:
        """A 64-byte aligned copy in row-major order."""
        copy = aligned_empty(array.size, array.dtype)[: array.size].reshape(array.shape)
        copy[...] = array
        return copy

    def empty(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """Aligned memory full of NaN (integers: -1)."""
        array = self.aligned(np.zeros(shape, dtype))
        array.reshape(-1).view(np.uint8)[:] = 0xFF
        return array

    def __call__(
        self, ir: str, name: str, arrays: Sequence[np.ndarray | int], tasks: Iterable[int], scratch_bytes: int = 0
    ) -> None:
        """Call the tasks of a kernel whose argument block is the addresses of `arrays`, and numbers as they are."""
        if self.rewrite is not None:
            ir = self.rewrite(ir)
        library = native.link({name: native.compile_object(ir, self.target)})
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(library[name])
        words = np.array([each if isinstance(each, int) else each.ctypes.data for each in arrays], np.int64)
        scratch = aligned_empty(scratch_bytes + 64, np.dtype(np.uint8))
        for task in tasks:
            scratch[:] = 0xFF
            function(words.ctypes.data, task, scratch.ctypes.data)
            assert (scratch[scratch_bytes:] == 0xFF).all(), f"task {task} of {name} wrote past its scratch"


@pytest.fixture(scope="session")
def run_kernel() -> KernelRunner:
    return KernelRunner()
