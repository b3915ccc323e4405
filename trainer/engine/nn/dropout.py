"""Dropout (Srivastava et al. 2014)."""

from __future__ import annotations

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.nn import random
from trainer.engine.nn.module import Module
from trainer.engine.tensor import Tensor


class Dropout(Module):
    """Zeros each element with probability `p` and divides the others by 1 − p in training; the identity otherwise.

    x may have any shape.
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p < 1:
            raise TrainerError("a dropout probability must be in [0, 1)", found=p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        keep = random.active().bernoulli(self.path, 1 - self.p, self._mask_shape(x))
        return functions.where(keep, x * (1 / (1 - self.p)), 0)

    def _mask_shape(self, x: Tensor) -> tuple[int, ...]:
        return x.shape

    def extra_repr(self) -> str:
        return f"{self.p}"


class Dropout2d(Dropout):
    """Dropout of whole channels of x [N, C, ...]."""

    def _mask_shape(self, x: Tensor) -> tuple[int, ...]:
        return (*x.shape[:2], *(1,) * (x.ndim - 2))


class Dropout1d(Dropout2d):
    """Dropout of whole channels of x [N, C, L]."""


class Dropout3d(Dropout2d):
    """Dropout of whole channels of x [N, C, D, H, W]."""
