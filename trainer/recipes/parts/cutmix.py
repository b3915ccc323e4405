"""CutMix (Yun et al. 2019) of a whole batch on the device, where its cost is negligible."""

from __future__ import annotations

from trainer import engine
from trainer.engine import Tensor, float32, nn


def cutmix(images: Tensor, shares: Tensor, *, probability: float) -> tuple[Tensor, Tensor]:
    """Pastes a rectangle of another image into each image [N, C, H, W], and mixes class probabilities `shares` [N, K].

    The rectangle has the image's aspect ratio, a fraction of its area drawn from U(0, 1), which is Beta(1, 1), and a
    random center; it is clipped at the image's edges. The other image is the one at the mirrored position of the batch.
    It uses the random numbers of a training step, so it can be called only there.
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
    """Whether each pixel of an axis lies within half of `side` of `middle` (fractions of the axis), bool."""
    place = (engine.arange(extent, dtype=float32).reshape(shape) + 0.5) * (1 / extent)
    return engine.abs(place - middle) < side * 0.5
