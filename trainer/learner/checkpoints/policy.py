"""Decides which checkpoints to keep, and which metric values warrant one: pure functions of the saved checkpoints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Saved:
    """A written checkpoint.

    Attributes:
        step: the step after which it was saved; number: its number in the run, from 1.
        value: the monitored metric at that step; None: not computed there, or no metric is monitored.
    """

    step: int
    number: int
    value: float | None = None


@dataclass(frozen=True)
class Keep:
    """The checkpoints to keep: the `last` latest, the `best` best by a metric (`mode`: max or min is better), every
    `every`-th.
    """

    last: int
    best: int = 0
    mode: str = "max"
    every: int | None = None


def is_better(value: float, best: float | None, mode: str) -> bool:
    """Whether `value` beats `best` (None: nothing so far); `mode` is max or min. NaN never does."""
    if math.isnan(value):
        return False
    if best is None or math.isnan(best):
        return True
    return value > best if mode == "max" else value < best


def ranking(history: Iterable[Saved], mode: str) -> list[Saved]:
    """The checkpoints with a value, best first; the earlier one first if equal."""
    measured = [saved for saved in history if saved.value is not None and not math.isnan(saved.value)]
    sign = -1 if mode == "max" else 1
    return sorted(measured, key=lambda saved: (sign * (saved.value or 0.0), saved.step))


def is_among_best(value: float, history: Iterable[Saved], keep: Keep) -> bool:
    """Whether a checkpoint with this value would be one of the best to keep."""
    if keep.best == 0 or math.isnan(value):
        return False
    ranked = ranking(history, keep.mode)
    return len(ranked) < keep.best or is_better(value, ranked[keep.best - 1].value, keep.mode)


def superseded(history: Sequence[Saved], keep: Keep) -> list[int]:
    """The steps whose checkpoints may be deleted, in order."""
    ordered = sorted(history, key=lambda saved: saved.step)
    kept = {saved.step for saved in ordered[-keep.last :]}
    kept |= {saved.step for saved in ranking(ordered, keep.mode)[: keep.best]}
    kept |= {saved.step for saved in ordered if keep.every is not None and saved.number % keep.every == 0}
    return [saved.step for saved in ordered if saved.step not in kept]
