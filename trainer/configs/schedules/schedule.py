"""The base of all learning-rate schedules: a section of the config with its formula.

A formula is written once for any array API namespace: the engine while a step is traced (so that a changed learning
rate compiles nothing), NumPy for reported values. Nothing here imports either.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import Field

from trainer import TrainerError
from trainer.configs.section import Section


@dataclass(frozen=True)
class Span:
    """Lengths of the run and of an epoch in optimizer steps (0: unknown).

    `held` maps each schedule with state to its state vector.
    """

    total_steps: int
    steps_per_epoch: int = 1
    held: Mapping[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stretch:
    """The time range of a formula, in its own unit: from the end of the warm-up to the end of the run."""

    start: int
    end: int
    unit: int
    """Number of optimizer steps in one unit of time."""
    span: Span

    def progress(self, time: Any, xp: Any, duration: int | None = None) -> Any:
        """The fraction of the range, or of `duration` from its start, that has elapsed at `time`: 0 to 1."""
        length = max(1, self.end - self.start) if duration is None else duration
        return xp.clip((time - self.start) / length, 0.0, 1.0)


class Schedule(Section):
    """The factor on the optimizer's learning rate over the run, with a linear warm-up at the start.

    A custom schedule derives from this class in a separate file, with fields for its settings and a `shape`:

        class Sawtooth(Schedule):
            name: str = "sawtooth"
            period: int = 10

            def shape(self, time, stretch, xp):
                return 1 - (time / self.period - xp.floor(time / self.period))

    and the config names it: `schedule: {name: "./sawtooth.py:Sawtooth", options: {period: 20}}`.
    """

    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("warmup_steps", "warmup_epochs", "warmup_fraction"),)
    needs_the_end: ClassVar[bool] = False
    """Whether the formula needs the end of the run, unless a duration is set."""

    name: str
    by: Literal["step", "epoch"] = Field(
        "step", description="Whether the learning rate changes at every optimizer step or once per epoch."
    )
    warmup_steps: int | None = Field(
        None,
        ge=0,
        description="Length of the linear warm-up in optimizer steps, during which the learning rate rises to "
        "its full value; 0 or null: no warm-up.",
    )
    warmup_epochs: float | None = Field(
        None, ge=0, description="Length of the linear warm-up in epochs, fractions allowed; 0 or null: no warm-up."
    )
    warmup_fraction: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Length of the linear warm-up as a fraction of the run's steps, 0 to 1, rounded to whole steps. "
        "A shorter run has a shorter warm-up. 0 or null: no warm-up.",
    )

    def shape(self, time: Any, stretch: Stretch, xp: Any) -> Any:
        """The factor without warm-up at `time`, a float64 scalar that counts steps or epochs from 0."""
        raise TrainerError(f"{type(self).__name__} has no `shape` method")

    def factor(self, step: Any, span: Span, xp: Any) -> Any:
        """The factor on the learning rate at `step`, a float64 scalar that holds an integer from 0.

        Args:
            span: lengths of the run and of an epoch.
            xp: NumPy, or the engine for tensors.
        """
        unit, warmup = self.unit(span), self.warmup(span)
        stretch = Stretch(warmup // unit, math.ceil(span.total_steps / unit), unit, span)
        factor = self.shape(xp.floor(step / unit) if unit > 1 else step, stretch, xp)
        return factor * xp.clip((step + 1) / warmup, 0.0, 1.0) if warmup else factor

    @property
    def ends_with_the_run(self) -> bool:
        """Whether the schedule depends on the run's length: it has a warm-up fraction, or lasts until the end."""
        has_own = getattr(self, "duration", None) is not None or getattr(self, "period", None) is not None
        return bool(self.warmup_fraction) or (self.needs_the_end and not has_own)

    def unit(self, span: Span) -> int:
        """Number of optimizer steps in one unit of time."""
        return max(1, span.steps_per_epoch) if self.by == "epoch" else 1

    def warmup(self, span: Span) -> int:
        """Number of warm-up steps (Goyal et al. 2017)."""
        if self.warmup_fraction is not None:
            return round(self.warmup_fraction * span.total_steps)
        return self.warmup_steps or round((self.warmup_epochs or 0) * span.steps_per_epoch)

    def parts_within(self) -> "tuple[Schedule, ...]":
        """The schedules that this one combines."""
        return ()


def every_schedule(schedule: Schedule) -> tuple[Schedule, ...]:
    """The schedule and all schedules inside it."""
    return (schedule, *(inner for part in schedule.parts_within() for inner in every_schedule(part)))


def power(base: float, exponent: Any, xp: Any) -> Any:
    """base ** exponent for a constant base of at least 0 and an exponent of at least 0."""
    if base > 0:
        return xp.exp(exponent * math.log(base))
    return xp.where(exponent > 0, exponent * 0, exponent * 0 + 1)
