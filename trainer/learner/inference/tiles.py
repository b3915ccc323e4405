"""Cuts images of any size into overlapping tiles of one size: every pixel is evaluated once, and none at a tile's edge.

A network trained on crops is evaluated on tiles of the same size, and one program serves all image sizes. This is the
overlap-tile strategy of the U-Net paper (Ronneberger, Fischer and Brox 2015).
"""

from __future__ import annotations

import numpy as np

from trainer import TrainerError
from trainer.datasets import Dataset, Item, Wrapped
from trainer.datasets.fields import IGNORED
from trainer.datasets.item_properties import sizes_of
from trainer.datasets.windows import window_of, window_places


class Tiles(Wrapped):
    """Cuts items {image, mask} of `dataset` into tiles of `size` by `size`; smaller images are padded.

    Tiles overlap by at least twice the margin. Each tile keeps its own part of the mask, and all other pixels become
    255: a pixel belongs to one tile, and is at least `margin` away from the tile's edge unless that is the image's
    edge.

    Args:
        dataset: a data set with the attribute `sizes`.
        size: height and width in pixels.
        margin: pixels at each inner edge that provide only context.
    """

    def __init__(self, dataset: Dataset, size: int, margin: int) -> None:
        if not 0 <= 2 * margin < size:
            raise TrainerError(
                "the margins of tiles leave nothing between them", found=f"size {size}, margin {margin}",
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
