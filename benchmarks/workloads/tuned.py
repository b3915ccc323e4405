"""Runs a workload in a tuning mode: prints one measure of it, or answers each line of standard input with the
milliseconds of a step after all decisions are made (`step_ms`).

Usage: tuned.py WORKLOAD MODE MEASURE [--share S] [--steps N] [--cache FOLDER]

Decisions are stored in FOLDER, by default a new empty one; compiled kernels are in their usual cache.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ours import WORKLOADS
from timing import step_ms

from trainer import engine
from trainer.engine.autotune import tuner as tuner_module
from trainer.engine.autotune.tuner import Tuner
from trainer.engine.targets.cpu import native


def first_step_ms(name: str, tuner: Tuner, steps: int) -> float:
    """Time from building the network to the end of the first step, with kernels from the cache."""
    start = time.perf_counter()
    WORKLOADS[name]()()
    return 1e3 * (time.perf_counter() - start)


def run_ms(name: str, tuner: Tuner, steps: int) -> float:
    """Total time of `steps` steps after the first."""
    run = WORKLOADS[name]()
    run()
    start = time.perf_counter()
    for _ in range(steps):
        run()
    return 1e3 * (time.perf_counter() - start)


def longest_pause_ms(name: str, tuner: Tuner, steps: int) -> float:
    """Longest time that the tuner delays a step until all decisions are made."""
    pauses = [0.0]
    after = tuner.after

    def timed(*arguments: object) -> None:
        start = time.perf_counter()
        after(*arguments)  # type: ignore[arg-type]
        pauses.append(time.perf_counter() - start)

    tuner.after = timed  # type: ignore[method-assign]
    _until_done(name, tuner)
    return 1e3 * max(pauses)


def left_to_do(name: str, tuner: Tuner, steps: int) -> float:
    """Number of kernels compiled, measured or still undecided after the first step."""
    WORKLOADS[name]()()
    measured = sum(record.source == "measured" for record in tuner.records)
    return native.object_counts()[0] + measured + (not tuner.done)


def _until_done(name: str, tuner: Tuner) -> Callable[[], object]:
    run = WORKLOADS[name]()
    run()
    while not tuner.done:
        run()
    return run


MEASURES = {function.__name__: function for function in (first_step_ms, run_ms, longest_pause_ms, left_to_do)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("mode")
    parser.add_argument("measure", choices=(*MEASURES, "step_ms"))
    parser.add_argument("--share", type=float, default=tuner_module.DEFAULT_SHARE)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--cache")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as empty:
        folder = arguments.cache or empty
        tuner_module.cache_path = lambda: Path(folder) / "tuning" / "cpu.jsonl"  # type: ignore[assignment]
        with engine.tuning(arguments.mode, share=arguments.share) as tuner:
            if arguments.measure == "step_ms":
                run = _until_done(arguments.workload, tuner)
                for _ in sys.stdin:
                    print(step_ms(run, arguments.steps), flush=True)
            else:
                print(MEASURES[arguments.measure](arguments.workload, tuner, arguments.steps), flush=True)


if __name__ == "__main__":
    main()
