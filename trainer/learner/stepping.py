"""Properties of the step being traced, from the loop to the optimizers: the micro-batch, the loss scale.

A task only calls `optimizer.minimize(loss)`.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.engine import Tensor

if TYPE_CHECKING:
    from trainer.learner.precision import LossScale


@dataclass(frozen=True)
class Stepping:
    """A micro-batch of a step.

    Args:
        micro_batches: maximum number per step.
        is_last: whether it is the last one of the step, after which parameters are updated.
        rows: number of rows of the micro-batch, a scalar; None: all micro-batches have the same weight.
        share: fraction of those rows that the traced shard has, a scalar; None: there are no shards.
        loss_scale: factor that multiplies losses before differentiation; None: 1.
        squared_norms: receives the squared norm of each optimizer's gradients, before clipping; None: not needed.
    """

    micro_batches: int = 1
    is_last: bool = True
    rows: Tensor | None = None
    loss_scale: LossScale | None = None
    squared_norms: list[Tensor] | None = None
    share: Tensor | None = None


_current: contextvars.ContextVar[Stepping | None] = contextvars.ContextVar("stepping", default=None)


def current() -> Stepping:
    """The step being traced; outside the loop, each batch is one step."""
    return _current.get() or Stepping()


@contextlib.contextmanager
def stepping(step: Stepping) -> Iterator[None]:
    """Sets `step` inside this context."""
    token = _current.set(step)
    try:
        yield
    finally:
        _current.reset(token)
