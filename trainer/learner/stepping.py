"""What the loop tells the optimizers of the step that is being traced: which micro-batch it is, how the loss is scaled.

A task calls `optimizer.minimize(loss)` and needs to know nothing of it.
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
        micro_batches: how many make a step, at most.
        is_last: whether this one is the step's last, after which parameters are updated.
        rows: how many rows the micro-batch has, a scalar; None: each micro-batch weighs the same.
        loss_scale: by how much losses are multiplied before they are differentiated; None: by nothing.
        squared_norms: gets the squared norm of each optimizer's gradients, before clipping; None: nobody wants them.
    """

    micro_batches: int = 1
    is_last: bool = True
    rows: Tensor | None = None
    loss_scale: LossScale | None = None
    squared_norms: list[Tensor] | None = None


_current: contextvars.ContextVar[Stepping | None] = contextvars.ContextVar("stepping", default=None)


def current() -> Stepping:
    """What holds for the step that is being traced; outside the loop each batch is a step of its own."""
    return _current.get() or Stepping()


@contextlib.contextmanager
def stepping(step: Stepping) -> Iterator[None]:
    """Let `step` hold within."""
    token = _current.set(step)
    try:
        yield
    finally:
        _current.reset(token)
