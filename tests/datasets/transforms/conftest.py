"""Items with every field, and a data set of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from trainer.datasets import Item

MakeItem = Callable[..., Item]


@pytest.fixture(scope="session")
def make_item() -> MakeItem:
    """An item of any size, channels and number of objects, from a seed: every field that has a place in the picture."""

    def make(height: int = 24, width: int = 32, *, channels: int = 3, objects: int = 3, seed: int = 0) -> Item:
        rng = np.random.default_rng(seed)
        left, top = rng.uniform(0, 0.6 * width, objects), rng.uniform(0, 0.6 * height, objects)
        right, bottom = (
            left + rng.uniform(0.1, 0.4, objects) * width,
            top + rng.uniform(0.1, 0.4, objects) * height,
        )
        boxes = np.stack([left, top, right, bottom], axis=1).astype(np.float32).reshape(-1, 4)
        points = rng.uniform(0, 1, (objects, 4, 3)) * (width, height, 1)
        points[..., 2] = rng.integers(0, 3, (objects, 4))
        points[points[..., 2] == 0] = 0
        return {
            "image": rng.integers(0, 256, (height, width, channels), dtype=np.uint8),
            "mask": rng.integers(0, 5, (height, width), dtype=np.uint8),
            "boxes": boxes,
            "labels": rng.integers(0, 3, objects),
            "crowd": rng.uniform(size=objects) < 0.2,
            "area": (0.7 * (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).astype(np.float32),
            "masks": np.array([box_mask(box, (height, width)) for box in boxes], bool).reshape(-1, height, width),
            "keypoints": points.astype(np.float32),
            "label": np.int64(seed % 3),
            "labels_hot": np.eye(3, dtype=np.float32)[seed % 3],
            "image_id": np.int64(seed),
            "size": np.array([height, width]),
            "placement": np.eye(3, dtype=np.float32),
        }

    return make


class Made:
    """A data set that makes its items when they are asked for."""

    class_names = ("circle", "square", "star")

    def __init__(self, length: int, make: MakeItem) -> None:
        self.length, self.make = length, make

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Item:
        return self.make(seed=index)

    def source(self, index: int) -> str:
        return f"made[{index}]"


@pytest.fixture
def made(make_item: MakeItem) -> Made:
    """Ten items of 24x32."""
    return Made(10, make_item)


def box_mask(box: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The pixels whose middle lies in a box."""
    rows, columns = np.arange(size[0]) + 0.5, np.arange(size[1]) + 0.5
    return np.outer((rows >= box[1]) & (rows < box[3]), (columns >= box[0]) & (columns < box[2]))
