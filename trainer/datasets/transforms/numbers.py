"""Normalization of pixels, and one-hot labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import Item
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.pictures import image_of
from trainer.datasets.transforms.transform import Transform

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass
class Normalize(Transform):
    """Converts `image` to float32: each channel from 0 to 1, minus its `mean`, divided by its `std`.

    Floats take four times the transfer to the device, where normalizing is free: tasks should do it there if possible.
    """

    minds_scale: ClassVar[bool] = False

    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        image = image_of(item)
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if len(numbers) not in (1, image.shape[2]):
                raise TrainerError(
                    f"the number of channels in {name} of normalize doesn't match the image",
                    found=f"{len(numbers)} numbers for {image.shape[2]} channels",
                    expected="one number, or one per channel",
                )
        white = 255 if image.dtype == np.uint8 else 1
        scale = np.float32(1) / (np.float32(white) * np.array(self.std, np.float32))
        offset = -np.array(self.mean, np.float32) / np.array(self.std, np.float32)
        # Whole rows with all channels: an inner loop over three values takes 8 times as long.
        rows = image.reshape(len(image), -1).astype(np.float32)
        rows *= np.resize(scale, rows.shape[1])
        rows += np.resize(offset, rows.shape[1])
        return {**item, "image": rows.reshape(image.shape)}


@dataclass
class OneHot(Transform):
    """Creates `labels_hot` from `label`: 1 for its class and 0 for the others, smoothed by `smoothing`.

    Label smoothing (Szegedy et al. 2016) moves this fraction from the class to all classes evenly.
    """

    minds_scale: ClassVar[bool] = False

    classes: int
    smoothing: float = 0.0

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        label = int(item["label"]) if "label" in item else -1
        if not 0 <= label < self.classes:
            raise TrainerError(
                "one_hot needs a class",
                found=f"label {label}" if "label" in item else f"an item of {', '.join(item)}",
                expected=f"a label of 0 to {self.classes - 1}",
            )
        hot = np.full(self.classes, self.smoothing / self.classes, np.float32)
        hot[label] += np.float32(1 - self.smoothing)
        return {**item, "labels_hot": hot}
