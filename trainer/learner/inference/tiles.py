"""Pictures of any size as overlapping windows of one: every pixel is measured once, and none at a window's edge.

A network that sees whole pictures in training as windows does the same here, and one program serves all sizes. The
overlap-tile strategy of the U-Net paper (Ronneberger, Fischer and Brox 2015).
"""

from __future__ import annotations

import numpy as np

from trainer import TrainerError
from trainer.datasets import Dataset, Item, Wrapped
from trainer.datasets.fields import IGNORED
from trainer.datasets.known import sizes_of
from trainer.datasets.windows import window_of, window_places


class Tiles(Wrapped):
    """Items {image, mask} of `dataset` as windows of `size` by `size`; a picture that is smaller gets a border.

    Windows overlap by twice the margin or more. Of the mask each window keeps what is its own, all else becomes 255: a
    pixel belongs to one window, and lies `margin` from its edge unless it does from the picture's.

    Args:
        dataset: knows the size of its items (`sizes`).
        size: height and width in pixels.
        margin: pixels at each inner edge that only give context.
    """

    def __init__(self, dataset: Dataset, size: int, margin: int) -> None:
        if not 0 <= 2 * margin < size:
            raise TrainerError(
                "tiles have nothing between their margins", found=f"size {size}, margin {margin}",
                expected="a margin below half of the size",
            )  # fmt: skip
        super().__init__(dataset)
        self.size, self.margin = size, margin
        self.places = [
            (index, window)
            for index, (height, width) in enumerate(sizes_of(dataset).tolist())
            for window in window_places((height, width), size, margin)
        ]

    def __len__(self) -> int:
        return len(self.places)

    def source(self, index: int) -> str:
        image, window = self.places[index]
        return f"{self.dataset.source(image)}, window at row {window.top}, column {window.left}"

    def __getitem__(self, index: int) -> Item:
        number, window = self.places[index]
        item = self.dataset[number]
        image, mask, size = item["image"], item["mask"], self.size
        labels = np.full((size, size), IGNORED, mask.dtype)
        (first, end), (left, right) = window.rows, window.columns
        labels[first - window.top : end - window.top, left - window.left : right - window.left] = mask[
            first:end, left:right
        ]
        return {"image": window_of(image, window.top, window.left, size), "mask": labels}
