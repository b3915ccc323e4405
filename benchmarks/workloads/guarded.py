"""A traced training step of 200 parameters, in which guards are a large share: answers each line of standard input with
the milliseconds of one call (median of several).

Usage: guarded.py
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.learner.optimizers import SGD

LAYERS = 100
WIDTH = 8
ROWS = 4
CALLS = 30


def guarded_step() -> tuple[Any, tuple[np.ndarray, np.ndarray]]:
    """The traced step (100 linear layers, mean squared error, SGD), and its arguments."""
    network = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    optimizer = SGD(network, 1e-3)
    random = np.random.default_rng(0)
    x, y = random.standard_normal((2, ROWS, WIDTH), dtype=np.float32)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = nn.mse_loss(network(x), y)
        optimizer.minimize(loss)
        return loss

    return engine.trace(step), (x, y)


def main() -> None:
    traced, arguments = guarded_step()
    for _ in range(3):
        traced(*arguments)
    for _ in sys.stdin:
        times = []
        for _ in range(CALLS):
            start = time.perf_counter()
            traced(*arguments)
            times.append(time.perf_counter() - start)
        print(1000 * statistics.median(times), flush=True)


if __name__ == "__main__":
    main()
