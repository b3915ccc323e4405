"""Image pairs of map and photo: tiles cut from aerial photos and their hand-drawn label maps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trainer.datasets.fields import IGNORED, Item
from trainer.datasets.readers import Opening
from trainer.datasets.readers.segmentation import SegmentationFolders

CLASSES = "classes.json"
SPLITS = {"train": "train", "valid": "val", "test": "test"}
SIZE = 256
MOST_UNLABELED = 0.05
MOST_OF_ONE_CLASS = 0.85


class MapTiles:
    """Items {image, target}, uint8 [256, 256, 3]: a tile of a label map in the colors of its classes, and of its photo.

    Tiles don't overlap and are cut from the top left corner, row by row. Tiles with more than 5 % unlabeled pixels, or
    more than 85 % of one class, are left out.
    """

    class_names: Sequence[str] = ()

    def __init__(
        self, photos: SegmentationFolders, colors: np.ndarray, corners: Sequence[tuple[int, int, int]]
    ) -> None:
        self.photos, self.colors, self.corners = photos, colors, corners

    def __len__(self) -> int:
        return len(self.corners)

    def source(self, index: int) -> str:
        photo, top, left = self.corners[index]
        return f"{self.photos.source(photo)} at x {left}, y {top}"

    def __getitem__(self, index: int) -> Item:
        photo, top, left = self.corners[index]
        item = self.photos[photo]
        window = slice(top, top + SIZE), slice(left, left + SIZE)
        return {"image": self.colors[item["mask"][window]], "target": item["image"][window]}


def read_map_tiles(root: Path, opening: Opening) -> dict[str, MapTiles]:
    """The tiles of each split of a folder with `classes.json`, `images/SPLIT` and `masks/SPLIT`.

    Raises:
        TrainerError: a folder or file is missing or unreadable.
    """
    classes = json.loads((root / CLASSES).read_text(encoding="utf-8"))
    colors = np.zeros((IGNORED + 1, 3), np.uint8)
    colors[IGNORED] = classes["ignore_rgb"]
    for one in classes["classes"]:
        colors[one["index"]] = one["rgb"]
    names = [one["name"] for one in classes["classes"]]
    photos = {split: SegmentationFolders(root, images=f"images/{word}", masks=f"masks/{word}", classes=names,
                                         opening=opening)
              for split, word in SPLITS.items()}  # fmt: skip
    total, done = sum(map(len, photos.values())), 0
    tiles: dict[str, MapTiles] = {}
    for split, folders in photos.items():
        corners = []
        for number in range(len(folders)):
            corners += [(number, *corner) for corner in usable_corners(folders.mask(number))]
            done += 1
            if opening.progress is not None:
                opening.progress(done, total)
        tiles[split] = MapTiles(folders, colors, corners)
    return tiles


def usable_corners(mask: np.ndarray) -> list[tuple[int, int]]:
    """(top, left) of each tile of a mask [H, W] that `shows_enough`."""
    height, width = mask.shape
    grid = [(top, left) for top in range(0, height - SIZE + 1, SIZE) for left in range(0, width - SIZE + 1, SIZE)]
    return [(top, left) for top, left in grid if shows_enough(mask[top : top + SIZE, left : left + SIZE])]


def shows_enough(square: np.ndarray) -> bool:
    """Whether at most 5 % of the pixels are unlabeled, and at most 85 % have the same class."""
    shares = np.bincount(square.ravel(), minlength=IGNORED + 1) / square.size
    return bool(shares[IGNORED] <= MOST_UNLABELED and shares[:IGNORED].max() <= MOST_OF_ONE_CLASS)
