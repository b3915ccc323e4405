"""Loss scaling, for gradients that float16 would round to zero (Micikevicius et al. 2018)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trainer import engine
from trainer.engine import State, Tensor, float32, int64

if TYPE_CHECKING:
    from trainer.configs import TrainConfig

SMALLEST_FACTOR = 1e-4
"""Minimum loss scale: below it, the values themselves exceed float16."""


class LossScale:
    """The factor that multiplies losses before differentiation.

    A step with non-finite gradients is skipped, and the factor is multiplied by `backoff`. After `growth_interval`
    consecutive good steps it is multiplied by `growth`, within float32's range. Rules and defaults are those of
    PyTorch's GradScaler.
    """

    def __init__(
        self, initial: float = 2.0**16, *, growth: float = 2.0, backoff: float = 0.5, growth_interval: int = 2000
    ) -> None:
        self.growth, self.backoff, self.growth_interval = growth, backoff, growth_interval
        self.factor = State(np.asarray(initial), "loss_scale", float32)
        self.good_steps = State(np.zeros((), np.int64), "loss_scale.good_steps", int64)
        self._is_finite: list[Tensor] = []

    @classmethod
    def fixed(cls) -> LossScale:
        """A constant factor of 1: only skips steps with non-finite gradients, and changes no bits."""
        return cls(1.0, growth=1.0, backoff=1.0)

    @classmethod
    def for_config(cls, config: TrainConfig) -> LossScale | None:
        """The loss scale for `train:`: dynamic for float16, constant to skip steps, or none."""
        if config.precision == "float16":
            return cls()
        return cls.fixed() if config.on_nan == "skip" else None

    @property
    def is_dynamic(self) -> bool:
        """Whether the factor changes; a constant factor is not saved."""
        return self.backoff != 1.0

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss to differentiate, in a wider type than float16, whose range the factor exceeds."""
        wide = loss.astype(float32) if loss.dtype.is_half else loss
        return wide * self.factor.astype(wide.dtype)

    def unscaled(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The gradients of the original loss."""
        inverse = 1 / self.factor
        return [gradient * inverse.astype(gradient.dtype) for gradient in gradients]

    def check(self, gradients: Sequence[Tensor]) -> Tensor:
        """Whether all gradients are finite; recorded for `update` and `was_finite`."""
        found = engine.asarray(True)
        for gradient in gradients:
            found = engine.logical_and(found, engine.all(engine.isfinite(gradient)))
        self._is_finite.append(found)
        return found

    def was_finite(self) -> Tensor | None:
        """Whether everything checked since the last call was finite; None if nothing was checked."""
        found, self._is_finite = self._is_finite, []
        return functools.reduce(engine.logical_and, found) if found else None

    def update(self) -> Tensor | None:
        """Updates the factor after the optimizers of a step; returns whether all gradients were finite, or None if no
        optimizer stepped.
        """
        is_good = self.was_finite()
        if is_good is None:
            return None
        good_steps = engine.where(is_good, self.good_steps + 1, engine.zeros_like(self.good_steps))
        is_due = good_steps >= self.growth_interval
        larger = self.factor * self.growth
        grown = engine.where(engine.logical_and(is_due, engine.isfinite(larger)), larger, self.factor)
        self.factor.assign(engine.where(is_good, grown, self.factor * self.backoff))
        self.good_steps.assign(engine.where(is_due, engine.zeros_like(good_steps), good_steps))
        return is_good

    def named_states(self) -> dict[str, State]:
        """The states on which the next step depends, by name."""
        return {state.name: state for state in (self.factor, self.good_steps)}
