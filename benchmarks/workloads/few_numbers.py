"""Times operations on small arrays without a trace. Each line of standard input names a case; the answer is the
microseconds of a call (median of several batches of calls).

Usage: few_numbers.py trainer|numpy|torch     (this script also runs in older checkouts)
"""

from __future__ import annotations

import importlib
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

MODULES = {"trainer": "trainer.engine", "numpy": "numpy", "torch": "torch"}
BATCHES, REPETITIONS = 15, 40
ROWS = 4096
"""Number of rows to index: together they fit into an L2 cache, and no library caches the results for this many rows."""

STEP = 2.0**-18
"""Difference between successive numbers: they stay distinct in float32."""


def cases(library: Any) -> dict[str, Callable[[], object]]:
    """Returns the timed calls by name; each reads its result as a NumPy array, except `unread`."""
    x, y = (library.asarray(np.linspace(low, 1.0, 16, dtype=np.float32)) for low in (0.5, 0.9))
    rows = library.asarray(np.random.default_rng(0).standard_normal((ROWS, 16), dtype=np.float32))
    count = itertools.count(1)

    def chain() -> Any:
        z = x
        for _ in range(20):
            z = z * y + x
        return z

    def number_chain() -> Any:
        z = x
        for _ in range(20):
            z = z * 0.75 + 0.625
        return z

    def row() -> int:
        return next(count) % (ROWS - 2)

    read: dict[str, Callable[[], Any]] = {
        "add": lambda: x + y,
        "number": lambda: x * 3.5,
        "exp": lambda: library.exp(x),
        "sum": lambda: library.sum(x),
        "less": lambda: x < y,
        "chain": chain,
        "number_chain": number_chain,
        "new_number": lambda: x * (3.5 + next(count) * STEP),
        "index": lambda: rows[7],
        "new_index": lambda: rows[row()],
        "slice": lambda: rows[7:9],
        "new_slice": lambda: rows[(at := row()) : at + 2],
    }
    return {**{name: reading(call) for name, call in read.items()}, "unread": chain}


def reading(call: Callable[[], Any]) -> Callable[[], object]:
    """Returns a function that calls `call` and reads its result."""
    return lambda: np.array(result) if isinstance(result := call(), np.ndarray | np.generic) else result.numpy()


def microseconds(call: Callable[[], object]) -> float:
    """Returns the microseconds of one call: the median of the batches' means."""
    call()
    times = []
    for _ in range(BATCHES):
        start = time.perf_counter()
        for _ in range(REPETITIONS):
            call()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times) / REPETITIONS


def main() -> None:
    library = importlib.import_module(MODULES[sys.argv[1]])
    if sys.argv[1] == "torch":
        library.set_num_threads(1)
    known = cases(library)
    for name in sys.stdin:
        print(microseconds(known[name.strip()]), flush=True)


if __name__ == "__main__":
    main()
