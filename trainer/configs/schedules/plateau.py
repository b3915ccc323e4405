"""The schedule that waits for a metric to stop improving: the one with a memory."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.schedules.schedule import Schedule, Stretch


class PlateauSchedule(Schedule):
    """The learning rate times `gamma` whenever `metric` has not improved for more than `patience` measurements.

    As PyTorch's ReduceLROnPlateau. What it remembers is saved with the run: [factor, best so far, measurements without
    an improvement, measurements of the pause left].
    """

    memory: ClassVar[int] = 4
    """Numbers that it remembers."""

    name: Literal["plateau"] = "plateau"
    metric: str = Field("valid/loss", min_length=1, description="The metric, as split/name.")
    mode: Literal["min", "max"] = Field("min", description="Whether lower or higher is better.")
    gamma: float = Field(0.1, gt=0, lt=1, description="Factor of each reduction.")
    patience: int = Field(10, ge=0, description="Measurements without an improvement that are borne.")
    min_change: float = Field(1e-4, ge=0, description="What counts as an improvement: so much of the best, or so much.")
    change: Literal["relative", "absolute"] = Field("relative", description="How min_change is meant.")
    cooldown: int = Field(0, ge=0, description="Measurements after a reduction that don't count.")
    lowest_factor: float = Field(0.0, ge=0, lt=1, description="It is never reduced below this.")

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        return time * 0 + stretch.span.held[self][0]

    def at_first(self) -> list[float]:
        """What it remembers before any measurement."""
        return [1.0, math.inf if self.mode == "min" else -math.inf, 0.0, 0.0]

    def after(self, remembered: Sequence[float], value: float) -> list[float]:
        """What it remembers after a measurement of the metric; one that is not a number is no improvement."""
        factor, best, waited, pause = (float(number) for number in remembered)
        if self._is_better(value, best):
            best, waited = value, 0.0
        else:
            waited += 1
        if pause > 0:
            pause, waited = pause - 1, 0.0
        if waited > self.patience:
            factor, waited, pause = max(factor * self.gamma, self.lowest_factor), 0.0, float(self.cooldown)
        return [factor, best, waited, pause]

    def _is_better(self, value: float, best: float) -> bool:
        if math.isinf(best):
            return value < best if self.mode == "min" else value > best
        margin = self.min_change * (abs(best) if self.change == "relative" else 1.0)
        return value < best - margin if self.mode == "min" else value > best + margin
