"""The tuner's report of a decision."""

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

    key: the decision's key in the cache. operation and shape: the kernel's operation and its shapes, as text.
    default_ms and best_ms: time of all launches of this kernel in a step, with the cost model's parameters and with the
    chosen ones (None if nothing was measured). candidates: number of candidates tried, including the default. skipped:
    reasons why candidates were not measured in steps, with counts. seconds: processor time of all trials. source:
    measured now, or read from the cache.
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
    """The time of each kernel in one run of a program, with the fields of a run's `step` event.

    program: its number, in order of compilation. updates: whether the program changes states, as a training step does
    and an evaluation does not. ms: duration of the run in milliseconds. kernels: milliseconds of all launches of each
    decided kernel, by its key. others: the same for kernels without a decision, by operation and shape; negligible ones
    are omitted.
    """

    program: int
    updates: bool
    ms: float
    kernels: Mapping[str, float]
    others: Mapping[str, float]


OnStepTime = Callable[[StepTime], None]
OnRecord = Callable[[TuneRecord], None]
OnProgress = Callable[[int, int, str], None]
"""Called with (finished stages, total stages, current kernels). A decision has two stages: trials, then real steps."""
