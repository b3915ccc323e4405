"""`data.batch_size: auto`: measures peak memory at growing batch sizes, each in a separate process."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from trainer import TrainerError
from trainer.cli.order import Order
from trainer.configs import Loaded, dump_resolved

SHARE = 0.6
"""Fraction of the memory that a run may take. The rest is for other processes and the page cache."""
FIRST = 8
"""The first batch size to measure; smaller ones are measured only if it doesn't fit."""
MOST_GROWTH = 8
"""Maximum factor between two successive measured batch sizes: peaks are extrapolated linearly."""

AUTO = "auto"


class Measured(NamedTuple):
    """Peak memory in bytes (infinity: memory ran out), and the number of training items (0: unknown)."""

    peak: float
    items: int


def largest_batch_size(measure: Callable[[int], Measured], budget: float) -> int:
    """The largest power of two whose measured peak is at most `budget` bytes.

    A size is measured only if the peak extrapolated from the two largest measured sizes is within the budget, so that
    memory never runs out during the search.

    Raises:
        TrainerError: not even a batch of one item fits.
    """
    peaks: dict[int, float] = {}
    too_large, size = math.inf, FIRST
    while size:
        found = measure(size)
        if found.peak > budget:
            too_large = size
        else:
            peaks[size] = found.peak
        size = _following(peaks, too_large, budget, found.items or math.inf)
    if not peaks:
        raise TrainerError(
            "no batch fits into the memory",
            where="data.batch_size: auto",
            found=f"a batch of one item takes more than {_size(budget)}, {SHARE:.0%} of the memory",
            expected="a smaller model or smaller items",
        )
    return max(peaks)


def _following(peaks: Mapping[int, float], too_large: float, budget: float, items: float) -> int:
    """The next size to measure; 0 if there is none."""
    if not peaks:
        return int(too_large) // 2
    last, *before = sorted(peaks, reverse=True)[:2]
    slope = max(0.0, (peaks[last] - peaks[before[0]]) / (last - before[0])) if before else 0.0
    growth = MOST_GROWTH if before else 2
    sizes = [last << shift for shift in range(1, growth.bit_length())]
    return max(
        (
            size
            for size in sizes
            if size < too_large and size <= items and peaks[last] + slope * (size - last) <= budget
        ),
        default=0,
    )


def with_batch_size(loaded: Loaded, earlier: int | None = None) -> Loaded:
    """The config with a numeric batch size: the configured one, that of the `earlier` attempt, or a measured one.

    Raises:
        TrainerError: the run would fail, or no batch fits.
    """
    if loaded.config.data.batch_size != AUTO:
        return loaded
    if earlier is not None:
        return _with(loaded, earlier, "an earlier attempt")
    from trainer.datasets.workers.memory import free_memory, whole_memory

    budget = min(SHARE * whole_memory(), free_memory())

    def measure(size: int) -> Measured:
        found = _measured(_with(loaded, size, "measuring"))
        taken = "more than there is" if math.isinf(found.peak) else _size(found.peak)
        print(f"data.batch_size {size}: {taken} of {_size(budget)}", file=sys.stderr, flush=True)
        return found

    return _with(loaded, largest_batch_size(measure, budget), "measured")


def _with(loaded: Loaded, size: int, origin: str) -> Loaded:
    data = loaded.config.data.model_copy(update={"batch_size": size})
    return loaded.with_section("data", data, f"{origin}, auto at {loaded.provenance['data.batch_size']}")


def _measured(loaded: Loaded) -> Measured:
    """The peak memory of a process that takes some steps, validates and writes a checkpoint with this config."""
    with tempfile.TemporaryDirectory(prefix="trainer-batch-size-") as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(dump_resolved(loaded), encoding="utf-8")
        from trainer.cli.starting import worker_environment

        order = Order((str(file),), os.getpid())
        command = [sys.executable, "-P", "-m", "trainer.cli.dry_run", order.to_json(), "memory"]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=worker_environment(), check=False
        )
    return read_measurement(done.returncode, done.stdout)


def read_measurement(code: int, output: bytes) -> Measured:
    """Parses the result of the measuring process; a killed process counts as out of memory.

    Raises:
        TrainerError: the run would fail for another reason.
    """
    if code < 0:
        return Measured(math.inf, 0)
    try:
        found = json.loads(output)
    except ValueError as error:
        raise TrainerError("the batch size can't be measured", found=f"a process that ended with {code}") from error
    if "error" in found:
        raise TrainerError(found["error"])
    return Measured(math.inf if found["peak"] is None else found["peak"], found["items"])


def _size(count: float) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
