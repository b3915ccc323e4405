"""The normalization of a network's images, as `model.normalization` sets it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainer import engine
from trainer.configs import NormalizationConfig
from trainer.engine import Tensor, float32


@dataclass(frozen=True)
class Normalize:
    """Converts uint8 images [N, C, H, W] to float32 (image / 255 - mean) / std: `image * scale - shift`, one number
    each, or one per channel.
    """

    scale: tuple[float, ...]
    shift: tuple[float, ...]

    @classmethod
    def of(cls, normalization: NormalizationConfig) -> Normalize:
        """The normalization of a config."""
        mean, std = np.broadcast_arrays(np.array(normalization.mean), np.array(normalization.std))
        scale, shift = 1 / (255 * std), mean / std
        count = 1 if np.ptp(scale) == np.ptp(shift) == 0 else len(scale)
        return cls(tuple(scale[:count].tolist()), tuple(shift[:count].tolist()))

    def __call__(self, images: Tensor) -> Tensor:
        pixels = images.astype(float32)
        if len(self.scale) == 1:
            return pixels * self.scale[0] - self.shift[0]
        scale, shift = (
            engine.asarray(np.array(each, np.float32).reshape(-1, 1, 1)) for each in (self.scale, self.shift)
        )
        return pixels * scale - shift
