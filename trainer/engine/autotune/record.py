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


OnRecord = Callable[[TuneRecord], None]
OnProgress = Callable[[int, int, str], None]
"""Called with (decisions made, decisions in all, what is tried now)."""
