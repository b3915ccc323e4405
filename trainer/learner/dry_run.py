"""A dry run: measures real steps, validations, samples and a checkpoint, to estimate the whole run."""

from __future__ import annotations

import itertools
import math
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.datasets import Cached, ItemCache

if TYPE_CHECKING:
    from trainer.datasets import Dataset, Loader
    from trainer.learner.training import Training
    from trainer.learner.verdict import Verdict

TIMED_STEPS = 3
"""Minimum number of timed steps, however slow."""
TIMED_BATCHES = 16
"""Maximum number of timed batches of a validation; the time of longer validations is extrapolated."""
REHEARSED_BATCHES = 2
"""Maximum number of batches of a validation whose time doesn't matter."""
WARM_UP_STEPS = 8
"""Maximum number of steps that are skipped because their batches were prepared in advance."""


@dataclass(frozen=True)
class DryRun:
    """The size of a run and its estimated cost, in bytes and seconds.

    Attributes:
        batch: shape and dtype of each array of a training batch, by name.
        parameters: number of parameters of each of the task's modules, by name.
        training_items: number of items of a training epoch.
        steps_per_epoch, total_steps: optimizer steps; `total_steps` is None if only `train.minutes` ends the run.
        timed_steps: number of steps averaged in `step_seconds`.
        first_step_seconds, step_seconds: a step of the first epoch, and of later ones, whose items are cached.
        data_wait: fraction of the step time spent waiting for data, 0 to 1.
        validations: number of validations; None with `total_steps`. validation_seconds: one of them, with samples.
        checkpoint_bytes, checkpoint_seconds: size of one checkpoint on disk, and the time to write it.
        peak_memory: maximum resident memory of the training process. cache_memory: size of the cache of decoded items
            once full; part of peak_memory unless `data_processes` workers share it. data_memory: private memory of
            these workers, without the killed ones (`killed_data_processes`).
        first_epoch_seconds, epoch_seconds: an epoch of steps, with its share of the validations.
        total_seconds: all steps and validations.
    """

    batch: dict[str, tuple[tuple[int, ...], str]]
    parameters: dict[str, int]
    training_items: int
    steps_per_epoch: int
    total_steps: int | None
    timed_steps: int
    first_step_seconds: float
    step_seconds: float
    data_wait: float
    validations: int | None
    validation_seconds: float
    checkpoint_bytes: int
    checkpoint_seconds: float
    peak_memory: int
    cache_memory: int
    data_processes: int
    data_memory: int
    killed_data_processes: int
    first_epoch_seconds: float
    epoch_seconds: float
    total_seconds: float


@dataclass(frozen=True)
class Timing:
    """Mean seconds per step, number of timed steps, and fraction of the time spent waiting for data."""

    seconds: float
    steps: int
    data_wait: float


def dry_run(training: Training, *, seconds: float) -> DryRun:
    """Runs steps, validates, writes samples and a checkpoint to the training's run directory, and resumes from it.

    Args:
        seconds: steps are timed for at least this long; 0: only compilation and memory matter, and validations are
            short.

    Raises:
        TrainingFailure: a number is not finite, or memory runs out.
    """
    batch = training.splits.train.batch(0, 0)
    length = training.plan.steps_per_epoch
    ahead = min(training.splits.train.workers.ahead, WARM_UP_STEPS)
    caches = caches_of(training.splits.all())
    first, done = timed_steps(training, [(0, length)], warm_up=1 + min(ahead, (length - 1) // 2), seconds=seconds)
    later = first
    if caches or first is None:
        read = ((epoch, length) for epoch in itertools.count(1)) if done == length else itertools.repeat((0, done))
        later, _ = timed_steps(training, read, warm_up=1 + ahead, seconds=seconds)
    assert later is not None
    validation = validation_seconds(training, TIMED_BATCHES if seconds else REHEARSED_BATCHES)
    began = time.perf_counter()
    go_on(training.saving.save("requested", wait=True))
    checkpoint_seconds = time.perf_counter() - began
    assert training.saving.keeper is not None
    folder = training.saving.keeper.folder
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    is_shared = training.splits.train.workers.kind == "process"
    kept, growth = cache_growth(caches)
    peak = peak_memory() + (0 if is_shared else growth)
    data_memory = private_memory_of_children() if is_shared else 0
    training.keeping.go_on_from(folder)

    first = first or later
    share = min(1.0, kept[0].limit / max(1, kept[0].needed)) if kept else 1.0
    step = share * later.seconds + (1 - share) * first.seconds
    plan, config = training.plan, training.config
    every = config.validate.every_steps or plan.steps_per_epoch * (config.validate.every_epochs or 1)
    validated = validation * plan.steps_per_epoch / every
    total = plan.total_steps or None
    validations = None if total is None else math.ceil(total / every) if training.splits.valid is not None else 0
    limit = math.inf if config.train.minutes is None else 60 * config.train.minutes
    whole = limit
    if total is not None and validations is not None:
        in_first = min(total, plan.steps_per_epoch)
        whole = min(limit, in_first * first.seconds + (total - in_first) * step + validations * validation)
    return DryRun(
        batch={name: (array.shape, array.dtype.name) for name, array in batch.items()},
        parameters={
            name: sum(math.prod(parameter.shape) for parameter in module.parameters())
            for name, module in training.parts.modules.items()
        },
        training_items=len(training.splits.train.sampler),
        steps_per_epoch=plan.steps_per_epoch,
        total_steps=total,
        timed_steps=later.steps,
        first_step_seconds=first.seconds,
        step_seconds=step,
        data_wait=later.data_wait,
        validations=validations,
        validation_seconds=validation,
        checkpoint_bytes=size,
        checkpoint_seconds=checkpoint_seconds,
        peak_memory=peak,
        cache_memory=sum(cache.size for cache in kept),
        data_processes=training.splits.train.workers.workers if is_shared else 0,
        data_memory=data_memory,
        killed_data_processes=training.splits.train.workers.killed,
        first_epoch_seconds=plan.steps_per_epoch * first.seconds + validated,
        epoch_seconds=plan.steps_per_epoch * step + validated,
        total_seconds=whole,
    )


def timed_steps(
    training: Training, passes: Iterable[tuple[int, int]], *, warm_up: int, seconds: float
) -> tuple[Timing | None, int]:
    """Times steps for `seconds`, or until the passes end; also returns the number of steps that were run.

    Args:
        passes: epochs, each with the number of its first steps to run.
        warm_up: number of first steps that are not timed: they compile, or use batches that were prepared in advance.
    """
    progress, every, loader = training.progress, training.config.train.log_every_steps, training.splits.train
    length = training.plan.steps_per_epoch
    done, began, waited = 0, 0.0, 0.0

    def timing() -> Timing | None:
        training.deferred.settle()
        spent, steps = time.perf_counter() - began, done - warm_up
        return Timing(spent / steps, steps, min(1.0, (loader.data_wait - waited) / spent)) if steps > 0 else None

    for epoch, steps in passes:
        progress.step = -(-progress.step // length) * length  # the last step of an epoch may have fewer micro-batches
        training.prepare()
        with training.epoch(epoch, 0) as batches, training.stopwatch.running():
            for _ in range(steps):
                if done == warm_up:
                    training.deferred.settle()
                    began, waited = time.perf_counter(), loader.data_wait
                go_on(training.step(batches))
                done += 1
                if progress.step == 1:
                    training.saving.prepare()
                if progress.step == 1 or progress.step % every == 0:
                    go_on(training.log())
                if done >= warm_up + TIMED_STEPS and time.perf_counter() - began >= seconds:
                    return timing(), done
    return timing(), done


def go_on(verdict: Verdict | None) -> None:
    """Raises the failure of a verdict: a dry run does not roll back."""
    if verdict is not None:
        raise verdict.failure


def validation_seconds(training: Training, most: int) -> float:
    """Returns the seconds of a validation with samples, extrapolated from at most `most` batches; 0 without validation
    data. The batches are validated twice and only the second pass is timed, because the first one compiles.
    """
    loader = training.splits.valid
    if loader is None:
        return 0.0
    planned = min(loader.steps_per_epoch, training.config.validate.batches or loader.steps_per_epoch)
    timed = min(planned, most)
    go_on(training.validate(timed))
    training.show_samples()
    training.measuring.settle(wait=True)  # evaluations in other processes would slow the timed pass
    began = time.perf_counter()
    go_on(training.validate(timed))
    between = time.perf_counter()
    training.show_samples()
    ended = time.perf_counter()
    training.measuring.settle(wait=True)
    return (between - began) * planned / timed + ended - between


@dataclass(frozen=True)
class Kept:
    """A cache of decoded items after all were read: they need `needed` bytes, and it keeps `size` of these."""

    needed: int
    limit: int

    @property
    def size(self) -> int:
        return min(self.needed, self.limit)


def cache_growth(caches: list[tuple[ItemCache, int]]) -> tuple[list[Kept], int]:
    """The caches after their data sets were read, in the given order, and the bytes by which they grow until then."""
    used, items = sum(cache.bytes_used for cache, _ in caches), sum(len(cache) for cache, _ in caches)
    kept = [Kept(math.ceil(used * length / max(1, items)), cache.limit) for cache, length in caches]
    return kept, max(0, sum(cache.size for cache in kept) - used)


def caches_of(loaders: list[Loader]) -> list[tuple[ItemCache, int]]:
    """The caches that loaders read through, each with the number of its data set's items."""

    def within(dataset: Dataset | None) -> Iterator[tuple[ItemCache, int]]:
        while dataset is not None:
            if isinstance(dataset, Cached):
                yield dataset.cache, len(dataset)
            dataset = getattr(dataset, "dataset", None)

    return [found for loader in loaders for found in within(loader.dataset)]


def peak_memory() -> int:
    """The highest resident memory of this process so far, in bytes."""
    peak = _memory_of("self").get("VmHWM")
    if peak is not None:
        return peak
    import resource

    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest if sys.platform == "darwin" else highest * 1024


def private_memory_of_children() -> int:
    """The highest resident memory of all child processes so far, without shared memory and files, in bytes."""
    import psutil  # imported on first use: it takes 10 ms

    total = 0
    for child in psutil.Process().children(recursive=True):
        found = _memory_of(str(child.pid))
        if found:
            total += max(0, found["VmHWM"] - found["RssFile"] - found["RssShmem"])
        else:
            with suppress(psutil.Error):  # the child has ended
                total += child.memory_info().rss
    return total


def _memory_of(process: str) -> dict[str, int]:
    """The kernel's records of a process's memory in bytes; empty if there are none."""
    try:
        status = Path("/proc", process, "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return {name: int(count) * 1024 for name, count in re.findall(r"^(\w+):\s+(\d+) kB$", status, re.MULTILINE)}
