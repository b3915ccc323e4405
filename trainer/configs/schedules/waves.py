"""Schedules that go along cosines and triangles, once or again and again."""

import math
from typing import Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.schedules.schedule import Schedule, Stretch, power

UNKNOWN_END = 10**9
"""Steps that no run takes, where its length is not known."""


class CosineSchedule(Schedule):
    """Half a cosine from 1 after the warm-up to `final_factor` at the end of the run (Loshchilov & Hutter 2017).

    With a `period` it begins anew after each: the next period is `period_factor` times as long, and `restart_factor`
    times as high.
    """

    needs_the_end: ClassVar[bool] = True

    name: Literal["cosine"] = "cosine"
    final_factor: float = Field(0.0, ge=0, le=1, description="The factor at the end of the run, or of each period.")
    period: int | None = Field(None, gt=0, description="Length of the first period in `by`; null: to the run's end.")
    period_factor: int = Field(1, ge=1, description="How many times as long each further period is.")
    restart_factor: float = Field(1.0, gt=0, le=1, description="How high each further period begins, by the former.")

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
        while start + period < end:  # few: they grow geometrically
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
    """Up from 1 / `initial_divisor` to 1 at `peak_at` of the run, then down to 1 / `final_divisor` of the beginning.

    Smith & Topin 2018; the learning rate of the optimizer is the highest.
    """

    needs_the_end: ClassVar[bool] = True

    name: Literal["one_cycle"] = "one_cycle"
    initial_divisor: float = Field(25.0, gt=0, description="The highest learning rate by the first.")
    final_divisor: float = Field(1e4, gt=0, description="The first learning rate by the last.")
    peak_at: float = Field(0.3, gt=0, lt=1, description="Share of the run after which the highest is reached.")
    curve: Literal["cosine", "linear"] = "cosine"

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        last = max(1, stretch.end - stretch.start - 1)  # the last step has the lowest, as in PyTorch
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
    """Up from `lowest_factor` to 1 in `rise`, down in `fall`, again and again (Smith 2017)."""

    name: Literal["triangular"] = "triangular"
    lowest_factor: float = Field(0.1, ge=0, lt=1, description="The factor at the foot of each triangle.")
    rise: int = Field(2000, gt=0, description="Time from foot to top, in `by`.")
    fall: int | None = Field(None, gt=0, description="Time from top to foot; null: as long as the rise.")
    height_factor: float = Field(1.0, gt=0, le=1, description="How high each further triangle is, by the former.")

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        fall = self.fall or self.rise
        passed = xp.clip(time - stretch.start, 0.0, math.inf)
        cycle = xp.floor(passed / (self.rise + fall))
        within = passed - cycle * (self.rise + fall)
        height = xp.where(within <= self.rise, within / self.rise, 1 - (within - self.rise) / fall)
        return self.lowest_factor + (1 - self.lowest_factor) * height * power(self.height_factor, cycle, xp)


class NoamSchedule(Schedule):
    """Up in a line for `warmup_steps`, then down as 1 / sqrt(step) (Vaswani et al. 2017).

    The factor is model_size ** -0.5 * min(step ** -0.5, step * warmup_steps ** -1.5) with steps from 1; without a
    `model_size` it is 1 at its highest.
    """

    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()

    name: Literal["noam"] = "noam"
    by: Literal["step"] = "step"
    warmup_steps: int = Field(4000, gt=0, description="Steps until the highest learning rate.")
    warmup_epochs: None = Field(None, description="Not used: this schedule has a warm-up of its own, in steps.")
    warmup_fraction: None = Field(None, description="Not used: this schedule has a warm-up of its own, in steps.")
    model_size: int | None = Field(None, gt=0, description="Width of the model; null: the factor reaches 1.")

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        scale = self.warmup_steps**0.5 if self.model_size is None else self.model_size**-0.5
        steps = time + 1
        return scale * xp.minimum(1 / xp.sqrt(steps), steps * self.warmup_steps**-1.5)

    def warmup(self, span: Any) -> int:
        return 0
