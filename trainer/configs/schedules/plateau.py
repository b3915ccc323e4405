"""The schedule that waits for a metric to stop improving; the only one with state."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.schedules.schedule import Schedule, Stretch


class PlateauSchedule(Schedule):
    """Multiplies the learning rate by `gamma` when a metric has not improved for more than `patience` validations.

    Equivalent to PyTorch's ReduceLROnPlateau. The state is saved with the run: [factor, best so far, validations
    without improvement, validations left of the cooldown].
    """

    memory: ClassVar[int] = 4
    """Length of the state vector."""

    name: Literal["plateau"] = "plateau"
    metric: str = Field("valid/loss", min_length=1, description="Monitored metric, as split/name, such as valid/loss.")
    mode: Literal["min", "max"] = Field(
        "min", description="Whether smaller (min) or larger (max) values of the metric are better."
    )
    gamma: float = Field(0.1, gt=0, lt=1, description="Factor that multiplies the learning rate at each reduction.")
    patience: int = Field(
        10,
        ge=0,
        description="Consecutive validations without improvement before the next one reduces the learning rate; 0: "
        "the first validation without improvement reduces it.",
    )
    min_change: float = Field(
        1e-4,
        ge=0,
        description="Minimum change of the metric that counts as an improvement, absolute or relative to the best "
        "value (see `change`).",
    )
    change: Literal["relative", "absolute"] = Field(
        "relative", description="Whether min_change is relative to the best value (0.01: one percent) or absolute."
    )
    cooldown: int = Field(0, ge=0, description="Number of validations after a reduction that are not counted; 0: none.")
    lowest_factor: float = Field(0.0, ge=0, lt=1, description="Minimum learning-rate factor; 0: no minimum.")

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        return time * 0 + stretch.span.held[self][0]

    def at_first(self) -> list[float]:
        """The state before the first validation."""
        return [1.0, math.inf if self.mode == "min" else -math.inf, 0.0, 0.0]

    def after(self, remembered: Sequence[float], value: float) -> list[float]:
        """The state after a validation; a value of NaN is not an improvement."""
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
