"""Image similarity: PSNR and SSIM, averaged over images."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from trainer import TrainerError, engine
from trainer.engine import Tensor, float64
from trainer.metrics.errors import difference
from trainer.metrics.predictions import Predictions
from trainer.metrics.ratio import Ratio

SIGMA, RADIUS = 1.5, 5
"""The Gaussian window: 11 by 11 pixels, truncated at 3.5 standard deviations (Wang et al. 2004)."""
K1, K2 = 0.01, 0.03


class Psnr(Ratio):
    """The peak signal-to-noise ratio in dB, 10 log10(range² / mean squared error): as in scikit-image, averaged over
    images.

    Infinite if any image equals its target.

    Args:
        data_range: data range: maximum minus minimum possible pixel value. 1 for 0 to 1, 2 for -1 to 1, 255 for uint8.
    """

    needs = ("predicted", "target")

    def __init__(self, data_range: float = 1.0) -> None:
        self.data_range = data_range

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        return of_images(given, self.of_each(given))

    def of_each(self, given: Predictions) -> Tensor:
        """The value of each image, float64 [B]."""
        away = engine.reshape(difference(given), (given.rows, -1))
        return math.log10(self.data_range) * 20 - engine.log(engine.mean(away * away, axis=1)) * (10 / math.log(10))


class Ssim(Psnr):
    """Structural similarity (Wang et al. 2004): scikit-image's with `gaussian_weights`, `use_sample_covariance=False`.

    Averaged over pixels whose window lies inside the image, over channels, and over images.
    """

    def of_each(self, given: Predictions) -> Tensor:
        shape = given["predicted"].shape
        if len(shape) != 4 or min(shape[2:]) <= 2 * RADIUS:
            raise TrainerError(
                "SSIM needs images of at least 11 by 11 pixels", found=f"images {list(shape)}",
                expected="[B, C, H, W] of at least 11 by 11",
            )  # fmt: skip
        difference(given)  # rejects other shapes
        x, y = (given[role].astype(float64) for role in ("predicted", "target"))
        means = smoothed(engine.stack([x, y, x * x, y * y, x * y], axis=0))
        mean_x, mean_y = means[0], means[1]
        spread_x, spread_y, both = means[2] - mean_x**2, means[3] - mean_y**2, means[4] - mean_x * mean_y
        c1, c2 = (K1 * self.data_range) ** 2, (K2 * self.data_range) ** 2
        alike = (2 * mean_x * mean_y + c1) * (2 * both + c2)
        return engine.mean(alike / ((mean_x**2 + mean_y**2 + c1) * (spread_x + spread_y + c2)), axis=(1, 2, 3))


def of_images(given: Predictions, each: Tensor) -> dict[str, Tensor]:
    """The parts of a mean over images, from a value per image, float64 [B]."""
    weight = given.weight.astype(float64)
    counted = engine.where(weight > 0, each * weight, engine.zeros_like(each))
    return {"numerator": engine.sum(counted), "denominator": engine.sum(weight)}


def smoothed(images: Tensor) -> Tensor:
    """Images [..., H, W] filtered with the Gaussian window where it lies inside them: [..., H - 10, W - 10]."""
    *leading, height, width = images.shape
    places = np.arange(-RADIUS, RADIUS + 1)
    window = np.exp(-(places**2) / (2 * SIGMA**2))
    window /= window.sum()
    flat = engine.reshape(images, (-1, 1, height, width))
    for shape in ((1, 1, -1, 1), (1, 1, 1, -1)):
        flat = engine.convolution(flat, engine.asarray(window.reshape(shape)))
    return engine.reshape(flat, (*leading, height - 2 * RADIUS, width - 2 * RADIUS))
