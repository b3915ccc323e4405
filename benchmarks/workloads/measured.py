"""Measures the cost of metrics in a training: CPU time of the loop's thread per step, outside the program.

python benchmarks/workloads/measured.py METRICS [--blocks N]

METRICS is a comma-separated list of metric names as in the configuration. The task is the recipe digits with a batch
size of 64. A training with the metrics and one without alternate in one process, because a step's cost outside the
program varies up to threefold with the machine's current speed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trainer.configs import load
from trainer.learner import Learner
from trainer.recipes.digits.task import Digits


class Outside:
    """Measures the thread's CPU time of steps, without the time of running programs."""

    def __init__(self, training: Any) -> None:
        self.training, self.inside = training, 0.0

    def watch(self) -> None:
        """Starts to measure the time of the current programs separately."""
        for program in self.training.traced_step().step.programs:
            program.run = self._counted(program.run)

    def _counted(self, run: Any) -> Any:
        def counted(arrays: Any) -> Any:
            started = time.thread_time()
            try:
                return run(arrays)
            finally:
                self.inside += time.thread_time() - started

        return counted

    def step(self, batch: Any) -> float:
        """Runs one step and returns its microseconds outside the programs."""
        self.inside = 0.0
        started = time.thread_time()
        self.training.step(iter([batch]))
        return 1e6 * (time.thread_time() - started - self.inside)


STEPS = 50
"""Steps of one training before the other's turn: in the first steps of a turn, the caches hold the other's data."""


class Arm:
    """A training of the recipe digits with these metrics."""

    def __init__(self, names: list[str]) -> None:
        loaded = load("digits", {"metrics": {"train": names, "valid": []}, "autotune.mode": "off"})
        self.training = Learner(Digits, loaded.config, loaded.options)._prepare()

    def prepare(self) -> None:
        """Compiles the step, and starts the processes that fold metrics."""
        self.training.prepare()
        self.batches = [self.training.splits.train.batch(0, number) for number in range(20)]
        self.training.step(iter([self.batches[0]]))
        self.training.measuring.train.take().wait(aside=True)
        self.outside = Outside(self.training)
        self.outside.watch()

    def block(self) -> float:
        """Returns the median cost of a step in microseconds."""
        return statistics.median(self.outside.step(self.batches[number % 20]) for number in range(STEPS))

    def close(self) -> None:
        """Waits until all metrics are folded, and ends the processes."""
        try:
            self.training.measuring.train.take().wait(aside=True)
        finally:
            self.training.measuring.close()


def main() -> None:
    """Prints medians over blocks as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metrics")
    parser.add_argument("--blocks", type=int, default=12)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        arms = [Arm([]), Arm(arguments.metrics.split(","))]
        for arm in arms:
            stack.callback(arm.close)
            arm.prepare()
        costs = [[arm.block() for arm in arms] for _ in range(2 + arguments.blocks)][2:]
    without, with_them = (statistics.median(column) for column in zip(*costs, strict=True))
    added = statistics.median(with_one - one for one, with_one in costs)
    print(json.dumps({"without": without, "with": with_them, "added_microseconds": added}))


if __name__ == "__main__":
    main()
