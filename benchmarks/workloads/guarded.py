"""Times a traced step with 200 parameters and little arithmetic, where guard checks are a visible part of the time:
answers each line of standard input with the milliseconds of one call (median of several).

Usage: guarded.py [--threads N] [--steps N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from trainer import engine
from trainer.engine import Tensor, nn

try:
    from trainer.engine.targets.cpu.device import CpuDevice
except ImportError:  # this script also runs in older checkouts
    from trainer.engine.devices.cpu.device import CpuDevice  # type: ignore[import-not-found,no-redef]

LAYERS, WIDTH, BATCH = 100, 8, 4
BRANCH_SCALE = 0.1  # keeps activations and gradients near 1 through all layers
LEARNING_RATE = 1e-6  # keeps the loss away from 0, and gradients from denormal numbers, in any number of calls


def guarded() -> Callable[[], float]:
    """100 residual linear layers of width 8 on a batch of 4, mean squared error, plain gradient descent."""
    layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
    parameters = layers.parameters()
    x, y = np.random.default_rng(0).standard_normal((2, BATCH, WIDTH), dtype=np.float32)

    def step(values: Tensor, target: Tensor) -> Tensor:
        for layer in layers:
            values = values + layer(values) * BRANCH_SCALE
        loss = engine.mean((values - target) ** 2)
        for parameter, gradient in zip(parameters, engine.gradients(loss, parameters), strict=True):
            parameter.assign(parameter - gradient * LEARNING_RATE)
        return loss

    traced = engine.trace(step)
    return lambda: float(traced(x, y).item())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()
    engine.set_default_device(CpuDevice(threads=arguments.threads))
    call = guarded()
    for _ in range(3):
        call()
    for _ in sys.stdin:
        times = []
        for _ in range(arguments.steps):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        print(1e3 * statistics.median(times), flush=True)


if __name__ == "__main__":
    main()
