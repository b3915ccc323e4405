"""Random small affine changes of whole batches of images: rotation, scale, shift."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trainer.datasets.dataset import Batch
from trainer.datasets.order import Draws


@dataclass(frozen=True, slots=True)
class RandomAffine:
    """Turns, scales and shifts every image of the field `field` (uint8 [B, C, H, W]) by its own random amounts.

    Bilinear sampling; what comes from outside the picture is 0. Amounts are uniform: the angle within `degrees` either
    way, each axis' scale within 1 ± `scale`, each axis' shift within ± `shift` pixels.
    """

    degrees: float = 10.0
    scale: float = 0.1
    shift: float = 2.0
    field: str = field(default="image")

    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        amounts = draws.uniform(5, -1.0, 1.0)
        angle = amounts[:, 0] * np.float32(np.deg2rad(self.degrees))
        scale = 1 + amounts[:, 1:3] * np.float32(self.scale)
        shift = amounts[:, 3:5] * np.float32(self.shift)
        cosine, sine = np.cos(angle), np.sin(angle)
        # Rows of the inverse map: where in the source a pixel (y, x) of the result, from the centre, is read.
        rows = np.stack([cosine / scale[:, 0], sine / scale[:, 0], shift[:, 0]], axis=1)
        columns = np.stack([-sine / scale[:, 1], cosine / scale[:, 1], shift[:, 1]], axis=1)
        return {**batch, self.field: warp(batch[self.field], rows, columns)}


def warp(images: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """`images` (uint8 [B, C, H, W]) read bilinearly at y = rows · (y', x', 1), x = columns · (y', x', 1).

    `rows` and `columns` are float32 [B, 3]; coordinates are counted in pixels from the centre of the picture. The
    result has the shape and dtype of `images`.
    """
    count, channels, height, width = images.shape
    down = (np.arange(height, dtype=np.float32) - (height - 1) / 2)[:, None]
    across = np.arange(width, dtype=np.float32) - np.float32((width - 1) / 2)

    def positions(coefficients: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
        """Index of the pixel before, in a picture with a border of one, and the fraction of the way to the next."""
        by_row, by_column, offset = (coefficients[:, which, None, None] for which in range(3))
        place = by_row * down + (by_column * across + (offset + np.float32((extent - 1) / 2 + 1)))
        np.clip(place, 0, np.float32(extent + 1 - 1e-3), out=place)
        before = place.astype(np.int32)
        place -= before
        return before, place

    top, y_fraction = positions(rows, height)
    left, x_fraction = positions(columns, width)
    stride = width + 2
    bordered = np.zeros((count, channels, height + 2, stride), np.float32)
    bordered[:, :, 1:-1, 1:-1] = images
    top *= stride
    top += left
    image_starts = np.arange(0, bordered.size, (height + 2) * stride, dtype=np.int32).reshape(count, channels, 1, 1)
    corner = top[:, None] + image_starts
    pixels = bordered.reshape(-1)
    x_fraction, y_fraction = x_fraction[:, None], y_fraction[:, None]

    def along_row(start: np.ndarray) -> np.ndarray:
        first = pixels[start]
        step = pixels[start + 1]
        step -= first
        step *= x_fraction
        step += first
        return step

    upper, lower = along_row(corner), along_row(corner + stride)
    lower -= upper
    lower *= y_fraction
    lower += upper
    lower += np.float32(0.5)
    return lower.astype(np.uint8)
