"""Random small shifts of whole batches of images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainer import TrainerError
from trainer.datasets.dataset import Batch
from trainer.datasets.order import Draws


@dataclass(frozen=True, slots=True)
class RandomShift:
    """Shifts every image of the field `key` ([B, C, H, W]) by a random integer number of pixels, at most `pixels` in
    each direction.

    All (2 * pixels + 1)**2 positions are equally likely; areas outside the image become 0.
    """

    pixels: int
    key: str = "image"

    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        images = batch[self.key]
        if images.ndim != 4:
            raise TrainerError(
                "RandomShift needs images",
                found=f"{self.key} of shape {list(images.shape)}",
                expected="[B, C, H, W]",
            )
        count, channels, height, width = images.shape
        border = self.pixels
        bordered = np.zeros((count, channels, height + 2 * border, width + 2 * border), images.dtype)
        bordered[:, :, border : border + height, border : border + width] = images
        places = 2 * border + 1
        down, right = (draws.uniform(2) * places).astype(np.int64).T
        windows = np.lib.stride_tricks.sliding_window_view(bordered, (height, width), axis=(2, 3))
        return {**batch, self.key: windows[np.arange(count), :, 2 * border - down, 2 * border - right]}
