"""Schedules along cosines and triangles, once or repeatedly."""

import math
from typing import Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.schedules.schedule import Schedule, Stretch, power

UNKNOWN_END = 10**9
"""More steps than any run takes, for runs of unknown length."""


class CosineSchedule(Schedule):
    """Decreases the learning rate along half a cosine to `final_factor` (Loshchilov and Hutter 2017).

    With a `period` it restarts after each period. The next period is `period_factor` times as long and starts at
    `restart_factor` times the previous height.
    """

    needs_the_end: ClassVar[bool] = True

    name: Literal["cosine"] = "cosine"
    final_factor: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Learning-rate factor at the end of the run, or of each period; 0: the learning rate ends at 0.",
    )
    period: int | None = Field(
        None,
        gt=0,
        description="Length of the first period in steps or epochs (see `by`), with a restart after each; null: no "
        "restarts.",
    )
    period_factor: int = Field(
        1, ge=1, description="Factor by which each period is longer than the previous one; 1: equal lengths."
    )
    restart_factor: float = Field(
        1.0, gt=0, le=1, description="Factor by which each period starts lower than the previous one; 1: equal heights."
    )

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        if self.period is None:
            return self._fall(stretch.progress(time, xp), time * 0 + 1, xp)
        passed = xp.clip(time - stretch.start, 0.0, math.inf)
        if self.period_factor == 1:
            restarts = xp.floor(passed / self.period)
            return self._fall(passed / self.period - restarts, power(self.restart_factor, restarts, xp), xp)
        begins, length, height = passed * 0, passed * 0 + self.period, passed * 0 + 1
        start, period, count = 0, self.period, 0
        end = stretch.end - stretch.start if stretch.end else UNKNOWN_END
        while start + period < end:  # few iterations: periods grow geometrically
            start, period, count = start + period, period * self.period_factor, count + 1
            is_later = passed >= start
            begins, length = (
                xp.where(is_later, passed * 0 + start, begins),
                xp.where(is_later, passed * 0 + period, length),
            )
            height = xp.where(is_later, passed * 0 + self.restart_factor**count, height)
        return self._fall(xp.clip((passed - begins) / length, 0.0, 1.0), height, xp)

    def _fall(self, progress: Any, height: Any, xp: Any) -> Any:
        return self.final_factor + (height - self.final_factor) * 0.5 * (1 + xp.cos(progress * math.pi))


class OneCycleSchedule(Schedule):
    """Raises the learning rate to its peak, then lowers it far below its initial value (Smith and Topin 2018).

    The optimizer's learning rate is the peak.
    """

    needs_the_end: ClassVar[bool] = True

    name: Literal["one_cycle"] = "one_cycle"
    initial_divisor: float = Field(25.0, gt=0, description="Peak learning rate divided by the initial learning rate.")
    final_divisor: float = Field(1e4, gt=0, description="Initial learning rate divided by the final learning rate.")
    peak_at: float = Field(
        0.3, gt=0, lt=1, description="Fraction of the run after which the peak is reached, between 0 and 1."
    )
    curve: Literal["cosine", "linear"] = Field(
        "cosine", description="Shape of the rise to the peak and of the fall after it."
    )

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        last = max(1, stretch.end - stretch.start - 1)  # the last step has the minimum, as in PyTorch
        passed, peak = time - stretch.start, self.peak_at * (stretch.end - stretch.start) - 1
        first = 1 / self.initial_divisor
        up = self._between(first, 1.0, xp.clip(passed / max(peak, 1e-9), 0.0, 1.0), xp)
        down = self._between(
            1.0, first / self.final_divisor, xp.clip((passed - peak) / max(last - peak, 1e-9), 0.0, 1.0), xp
        )
        return xp.where(passed <= peak, up, down)

    def _between(self, start: float, end: float, progress: Any, xp: Any) -> Any:
        if self.curve == "linear":
            return start + (end - start) * progress
        return end + (start - end) * 0.5 * (1 + xp.cos(progress * math.pi))


class TriangularSchedule(Schedule):
    """Cycles the learning rate linearly between `lowest_factor` and 1 (Smith 2017)."""

    name: Literal["triangular"] = "triangular"
    lowest_factor: float = Field(
        0.1, ge=0, lt=1, description="Learning-rate factor at the start and end of each cycle."
    )
    rise: int = Field(2000, gt=0, description="Length of the rising part of a cycle, in steps or epochs (see `by`).")
    fall: int | None = Field(
        None,
        gt=0,
        description="Length of the falling part of a cycle, in steps or epochs (see `by`); null: the same as rise.",
    )
    height_factor: float = Field(
        1.0, gt=0, le=1, description="Factor by which each cycle's peak is lower than the previous one; 1: equal peaks."
    )

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        fall = self.fall or self.rise
        passed = xp.clip(time - stretch.start, 0.0, math.inf)
        cycle = xp.floor(passed / (self.rise + fall))
        within = passed - cycle * (self.rise + fall)
        height = xp.where(within <= self.rise, within / self.rise, 1 - (within - self.rise) / fall)
        return self.lowest_factor + (1 - self.lowest_factor) * height * power(self.height_factor, cycle, xp)


class NoamSchedule(Schedule):
    """Raises the learning rate linearly for `warmup_steps`, then lowers it as 1 / sqrt(step) (Vaswani et al. 2017).

    The factor is model_size ** -0.5 * min(step ** -0.5, step * warmup_steps ** -1.5) with steps from 1; without
    `model_size` its maximum is 1.
    """

    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()

    name: Literal["noam"] = "noam"
    by: Literal["step"] = "step"
    warmup_steps: int = Field(4000, gt=0, description="Warm-up steps until the peak learning rate.")
    warmup_epochs: None = Field(None, description="Not supported: set warmup_steps instead.")
    warmup_fraction: None = Field(None, description="Not supported: set warmup_steps instead.")
    model_size: int | None = Field(
        None,
        gt=0,
        description="Width of the model (d_model in the paper); null: the peak is the optimizer's learning rate.",
    )

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        scale = self.warmup_steps**0.5 if self.model_size is None else self.model_size**-0.5
        steps = time + 1
        return scale * xp.minimum(1 / xp.sqrt(steps), steps * self.warmup_steps**-1.5)

    def warmup(self, span: Any) -> int:
        return 0
