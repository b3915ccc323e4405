"""Products of int8 matrices compared with PyTorch's `torch._int_mm`, in GOP/s; the weights are packed beforehand.

python benchmarks/int8.py [square_1024 …] [--json] [--peer-python PATH] [--rounds N]
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import BestPolicy, Figure, run_figures

from trainer.engine.graph.dtypes import int32
from trainer.engine.graph.storage import aligned_empty
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.pool import BARRIER, RECORD_WORDS, shared_pool
from trainer.engine.targets.cpu.templates import contraction
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec

PRODUCTS = {  # rows, columns, depth
    "square_1024": (1024, 1024, 1024),
    "square_2048": (2048, 2048, 2048),
    "pixels_3136x64_to_256": (8 * 3136, 256, 64),
    "linear_128x4096": (128, 4096, 1024),
}
PEER = Path(__file__).parent / "workloads" / "torch_int8.py"
REPETITIONS = 20


@functools.lru_cache(maxsize=1)
def _product(rows: int, columns: int, depth: int) -> Callable[[], None]:
    quads = depth // 4
    spec = MatmulSpec(int32, rows, columns, quads, (quads, 1), (1, quads), quads="signed")
    parameters = defaults.choose(spec)
    sizes = (rows * quads, contraction.pack_spec(spec).size, rows * columns)
    arrays = [aligned_empty(size, np.dtype(np.int32)) for size in sizes]
    for array in arrays:
        array.view(np.int8)[:] = np.resize(np.random.default_rng(0).integers(-128, 128, 1 << 16), array.nbytes)
    library = native.link({"kernel": native.compile_object(contraction.TEMPLATE.render(spec, parameters, "kernel"))})
    block = np.array([array.ctypes.data for array in arrays], np.int64)
    tape = aligned_empty(RECORD_WORDS, np.dtype(np.int64))
    tape[:] = 0
    tape[:4] = library["kernel"], block.ctypes.data, contraction.TEMPLATE.tasks(spec, parameters), BARRIER

    def run() -> None:
        assert library.addresses and block.size and arrays  # keeps them alive
        shared_pool().run(tape.ctypes.data, 1)

    return run


def ours(rows: int, columns: int, depth: int) -> float:
    """GOP/s through the thread pool; a multiplication and an addition are two operations."""
    run, times = _product(rows, columns, depth), []
    run()
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 2e-9 * rows * columns * depth / statistics.median(times)


@functools.cache
def _peer(python: str) -> BestPolicy:
    return BestPolicy(python, str(PEER), str(shared_pool().threads))


def peer(rows: int, columns: int, depth: int, python: str) -> float:
    """GOP/s of the same product in PyTorch."""
    return 2e-6 * rows * columns * depth / _peer(python)(f"{rows} {columns} {depth}")


FIGURES = [
    Figure(name, functools.partial(ours, *sizes), functools.partial(peer, *sizes), 1.0, "higher", "GOP/s", rounds=3)
    for name, sizes in PRODUCTS.items()
]

if __name__ == "__main__":
    sys.exit(run_figures(FIGURES))
