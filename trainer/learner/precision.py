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
"""Below, no factor helps: the numbers themselves are beyond float16."""


class LossScale:
    """The factor on losses before they are differentiated.

    A step whose gradients are not finite is left out, and the factor falls to `backoff` of itself; after
    `growth_interval` good steps in a row it grows by `growth`, as long as float32 holds it. PyTorch's GradScaler has
    the same rules and defaults.
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
        """A factor of 1 for good: only leaves out steps whose gradients are not finite, and changes no bits."""
        return cls(1.0, growth=1.0, backoff=1.0)

    @classmethod
    def for_config(cls, config: TrainConfig) -> LossScale | None:
        """What `train:` asks for: a factor that moves for float16, a fixed one to leave out bad steps, or none."""
        if config.precision == "float16":
            return cls()
        return cls.fixed() if config.on_nan == "skip" else None

    @property
    def is_dynamic(self) -> bool:
        """Whether the factor moves; a fixed one is no state."""
        return self.backoff != 1.0

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss to differentiate: wide enough for the factor, which float16 is not."""
        wide = loss.astype(float32) if loss.dtype.is_half else loss
        return wide * self.factor.astype(wide.dtype)

    def unscaled(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The gradients of the loss itself."""
        inverse = 1 / self.factor
        return [gradient * inverse.astype(gradient.dtype) for gradient in gradients]

    def check(self, gradients: Sequence[Tensor]) -> Tensor:
        """Whether all of the gradients are finite; noted for `update` and `was_finite`."""
        found = engine.asarray(True)
        for gradient in gradients:
            found = engine.logical_and(found, engine.all(engine.isfinite(gradient)))
        self._is_finite.append(found)
        return found

    def was_finite(self) -> Tensor | None:
        """Whether all that was checked since the last time was finite; None if nothing was."""
        found, self._is_finite = self._is_finite, []
        return functools.reduce(engine.logical_and, found) if found else None

    def update(self) -> Tensor | None:
        """After the optimizers of a step: let the factor grow or fall; whether all was finite, None if none stepped."""
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
        """What the next step depends on, by name."""
        return {state.name: state for state in (self.factor, self.good_steps)}
