"""Measures what metrics cost a training: processor time of the loop's thread a step, outside the program.

python benchmarks/workloads/measured.py METRICS [--steps N]

METRICS are none, or a comma between names of the configuration's. The task is the recipe digits at a batch of 64.
"""

from __future__ import annotations

import argparse
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
    """Adds up the thread's processor time of steps, without that of running programs."""

    def __init__(self, training: Any) -> None:
        self.training, self.inside = training, 0.0

    def watch(self) -> None:
        """Count what the programs that there are now take, apart."""
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
        """Microseconds of one step."""
        self.inside = 0.0
        started = time.thread_time()
        self.training.step([batch])
        return 1e6 * (time.thread_time() - started - self.inside)


def main() -> None:
    """Print the median over steps as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metrics")
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    names = [] if arguments.metrics == "none" else arguments.metrics.split(",")
    loaded = load("digits", {"metrics": {"train": names, "valid": []}, "tuning.mode": "off"})
    learner = Learner(Digits, loaded.config, loaded.options)
    training = learner._prepare()
    try:
        training.prepare()
        batches = [training.splits.train.batch(0, number) for number in range(20)]
        training.step([batches[0]])
        outside = Outside(training)
        outside.watch()
        costs = [outside.step(batches[number % 20]) for number in range(arguments.steps)]
        training.measuring.train.take().wait(aside=True)
        print(json.dumps({"microseconds": statistics.median(costs[50:])}))
    finally:
        training.measuring.close()


if __name__ == "__main__":
    main()
