"""Gradient clipping, by global norm or by value."""

from __future__ import annotations

from collections.abc import Sequence

from trainer import engine
from trainer.engine import Tensor


def clipped_by_norm(gradients: Sequence[Tensor], max_norm: float) -> list[Tensor]:
    """Gradients times min(1, max_norm / (norm + 1e-6)); `norm` is their global L2 norm (as torch's clip_grad_norm_)."""
    norm = engine.sqrt(squared_norm(gradients))
    factor = engine.minimum(max_norm / (norm + 1e-6), engine.ones_like(norm))
    return [gradient * factor.astype(gradient.dtype) for gradient in gradients]


def squared_norm(gradients: Sequence[Tensor]) -> Tensor:
    """The sum of the squares of all gradient elements."""
    squares = [engine.sum(gradient * gradient) for gradient in gradients]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    return total


def clipped_by_value(gradients: Sequence[Tensor], largest: float) -> list[Tensor]:
    """Clamps each gradient element between -largest and largest (as torch's clip_grad_value_)."""
    return [engine.clip(gradient, -largest, largest) for gradient in gradients]
