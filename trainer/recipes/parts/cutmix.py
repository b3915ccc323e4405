"""CutMix (Yun et al. 2019) of a whole batch on the device, where it costs next to nothing."""

from __future__ import annotations

from trainer import engine
from trainer.engine import Tensor, float32, nn


def cutmix(images: Tensor, shares: Tensor, *, probability: float) -> tuple[Tensor, Tensor]:
    """Pictures [N, C, H, W] with a rectangle of another of the batch, and `shares` [N, K] of classes mixed by area.

    The rectangle has the picture's proportions, a share of its area drawn from U(0, 1), that is Beta(1, 1), and a
    middle anywhere; what lies outside of the picture is cut off. The other is the one as far from the batch's end.
    Within a training step only, whose random numbers it takes.
    """
    random, (count, _, height, width) = nn.random.active(), images.shape
    side = engine.sqrt(random.uniform("cutmix.area", (count, 1, 1, 1)))
    side = side * random.bernoulli("cutmix", probability, (count, 1, 1, 1)).astype(float32)
    is_pasted = _within(height, side, random.uniform("cutmix.y", (count, 1, 1, 1)), (1, 1, height, 1))
    is_pasted = is_pasted & _within(width, side, random.uniform("cutmix.x", (count, 1, 1, 1)), (1, 1, 1, width))
    share = engine.mean(is_pasted.astype(float32), axis=(1, 2, 3)).reshape((count, 1))
    mixed = engine.where(is_pasted, engine.flip(images, axis=0), images)
    return mixed, shares * (1 - share) + engine.flip(shares, axis=0) * share


def _within(extent: int, side: Tensor, middle: Tensor, shape: tuple[int, ...]) -> Tensor:
    """bool: which pixels of an axis lie within half of `side` of `middle`, both as shares of it."""
    place = (engine.arange(extent, dtype=float32).reshape(shape) + 0.5) * (1 / extent)
    return engine.abs(place - middle) < side * 0.5
