"""Structural similarity at several scales (Wang, Simoncelli and Bovik 2003)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from trainer import TrainerError, engine
from trainer.engine import Tensor, float64
from trainer.metrics.images import K1, K2, RADIUS, of_images, smoothed
from trainer.metrics.predictions import Predictions
from trainer.metrics.ratio import Ratio

WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
"""Weights of the scales, from the finest, as in the paper."""


class MsSsim(Ratio):
    """The mean over images of the product over five scales of contrast and structure, and of luminance at the coarsest.

    Between scales, images are averaged over 2x2 pixels (an odd last row or column is left out). The similarity of a
    scale is the mean over pixels whose window lies within the image, and over channels; a negative one counts as 0.

    Args:
        data_range: data range: maximum minus minimum possible pixel value.
    """

    needs = ("predicted", "target")

    def __init__(self, data_range: float = 1.0) -> None:
        self.data_range = data_range

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        one, other = given["predicted"], given["target"]
        least = (2 * RADIUS + 1) << (len(WEIGHTS) - 1)
        if one.shape != other.shape or one.ndim != 4 or min(one.shape[2:]) < least:
            raise TrainerError(
                "MS-SSIM needs pairs of images",
                found=f"predicted {list(one.shape)}, target {list(other.shape)}",
                expected=f"both [B, C, H, W], height and width at least {least}",
            )
        one, other = one.astype(float64), other.astype(float64)
        score = engine.ones((one.shape[0],), dtype=float64)
        for scale, weight in enumerate(WEIGHTS):
            if scale:
                one, other = engine.average_pool(one, 2), engine.average_pool(other, 2)
            luminance, structure = self._similarities(one, other)
            kept = luminance * structure if scale == len(WEIGHTS) - 1 else structure
            mean = engine.mean(kept, axis=(1, 2, 3))
            score = score * engine.pow(engine.maximum(mean, 0), weight)
        return of_images(given, score)

    def _similarities(self, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """The terms for luminance, and for contrast and structure, float64 [B, C, H - 10, W - 10]."""
        c1, c2 = (K1 * self.data_range) ** 2, (K2 * self.data_range) ** 2
        mean, other_mean = smoothed(one), smoothed(other)
        variances = smoothed(one * one) - mean * mean + smoothed(other * other) - other_mean * other_mean
        covariance = smoothed(one * other) - mean * other_mean
        luminance = (2 * mean * other_mean + c1) / (mean * mean + other_mean * other_mean + c1)
        return luminance, (2 * covariance + c2) / (variances + c2)

    def state_key(self) -> Hashable:
        return MsSsim, self.data_range
