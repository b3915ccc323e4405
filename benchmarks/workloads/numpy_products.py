"""Times NumPy's matrix products: answers each line `product ROWS DEPTH COLUMNS` with the milliseconds of one call.

Usage: numpy_products.py     (OpenBLAS reads its number of threads from OPENBLAS_NUM_THREADS)
"""

from __future__ import annotations

import functools
import statistics
import sys
import time

import numpy as np

REPETITIONS = 5


@functools.lru_cache(maxsize=1)
def operands(line: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, depth, columns = map(int, line.split()[1:])
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape, dtype=np.float32) for shape in ((rows, depth), (depth, columns)))
    return a, b, np.empty((rows, columns), np.float32)


for request in sys.stdin:
    first, second, output = operands(request.strip())
    np.matmul(first, second, out=output)
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        np.matmul(first, second, out=output)
        times.append(time.perf_counter() - start)
    print(1e3 * statistics.median(times), flush=True)
