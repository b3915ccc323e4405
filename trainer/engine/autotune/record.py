"""What the tuner tells of a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Mode = Literal["background", "upfront", "cached", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)

Source = Literal["measured", "cache"]


@dataclass(frozen=True, slots=True)
class TuneRecord:
    """One decision, with the fields of a run's `tune` event.

    key: names the decision in the cache. operation and shape: what is computed, in words. default_ms and best_ms: time
    in a step of all launches of this kernel with the cost model's parameters and with those that were chosen (None
    where nothing was measured). candidates: how many were tried, the default among them. skipped: why others were not
    taken to a step, with counts. seconds: processor time that trying them took. source: measured now, or read from the
    cache.
    """

    key: str
    operation: str
    shape: str
    default_ms: float | None
    best_ms: float | None
    candidates: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    source: Source = "measured"


@dataclass(frozen=True, slots=True)
class StepTime:
    """What the kernels of one program take of its run, with the fields of a run's `step` event.

    program: its number, in the order in which they were compiled. updates: it changes states, as a training step does
    and an evaluation does not. ms: the run, in milliseconds. kernels: milliseconds of all launches of each kernel that
    is decided, by its key. others: of those that are not, or need not be, by operation and shape; what can't be felt is
    left out.
    """

    program: int
    updates: bool
    ms: float
    kernels: Mapping[str, float]
    others: Mapping[str, float]


OnStepTime = Callable[[StepTime], None]
OnRecord = Callable[[TuneRecord], None]
OnProgress = Callable[[int, int, str], None]
"""Called with (decisions made, decisions in all, what is tried now)."""
